package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// modelFiles are the files of one model, loaded, and the proofs about them.
type modelFiles struct {
	dir    string
	source *local.Source // nil if they can't be used, for the reason err
	prover *prompt.Prover
	err    error
}

// fileSet is the files of all models, by name.
type fileSet struct {
	models map[string]*modelFiles
}

// loadFiles loads each model by itself, so that one that is refused keeps no other
// from being looked at.
func loadFiles(models map[string]local.Model) *fileSet {
	set := &fileSet{models: map[string]*modelFiles{}}
	for name, m := range models {
		f := &modelFiles{dir: m.Dir}
		f.source, f.err = local.New(local.Options{Models: map[string]local.Model{name: m}, Reload: -1})
		if f.err == nil {
			f.prover = prompt.NewProver(f.source, prompt.ProverOptions{})
		}
		set.models[name] = f
	}
	return set
}

func (s *fileSet) close() {
	for _, f := range s.models {
		if f.err == nil {
			_ = f.prover.Close() // both always nil
			_ = f.source.Close()
		}
	}
}

// findings are what there is to say of the files themselves.
func (s *fileSet) findings(patients []*patient) findings {
	all := []Finding{}
	for _, name := range slices.Sorted(maps.Keys(s.models)) {
		f := s.models[name].finding(name, patients)
		f.Check, f.Subject = "files", name
		all = append(all, f)
	}
	return all
}

func (f *modelFiles) finding(name string, patients []*patient) Finding {
	switch {
	case errors.Is(f.err, local.ErrModelType), errors.Is(f.err, local.ErrTokenizerClass):
		return fault("%s: refused: %s", f.dir, cause(f.err)).
			advise("Leave these files out: the engine's /render or /tokenize serves the model, see tokens below.")[0]
	case f.err != nil:
		return fault("%s: refused: %s", f.dir, cause(f.err)).
			advise("Give the folder that the engine loads the model from, or a copy of its configuration and tokenizer files.")[0]
	}
	st := f.source.Status()[0]
	facts := Facts{"dir": st.Dir, "assets": st.Assets, "type": st.Type, "class": st.Class, "template": st.Template, "dated": st.Dated}
	served := slices.ContainsFunc(patients, func(p *patient) bool {
		return slices.ContainsFunc(p.models(), func(m fleet.Model) bool { return m.Name == name })
	})
	switch {
	case !served:
		return warning("%s: usable, but no worker serves a model of that name", st.Dir).
			advise("Name the model in -files as /v1/models does; see models below.").with(facts)[0]
	case !st.Template:
		return warning("%s: no chat template, so that only completions are computed from these files", st.Dir).
			advise("Add chat_template.jinja, if the engine has one from --chat-template.").with(facts)[0]
	case st.Dated:
		return ok("%s: %s, content %s; its template prints the date, which must be the engine's",
			st.Dir, st.Type, short(st.Assets)).with(facts)[0]
	}
	return ok("%s: %s, content %s", st.Dir, st.Type, short(st.Assets)).with(facts)[0]
}

// cause is why files are refused, without the parts that the line has already.
func cause(err error) string {
	var asset *local.AssetError
	if errors.As(err, &asset) {
		err = asset.Err
	}
	return err.Error()
}

// short is enough of a hash to compare by eye.
func short(assets string) string {
	const enough = 12
	return assets[:min(enough, len(assets))]
}

// checkFiles: are the prompts computed from local files the engine's, token for
// token?
func checkFiles(ctx context.Context, p *patient) findings {
	var found findings
	for _, m := range p.models() {
		if f := p.files.models[m.Name]; f != nil {
			found = append(found, p.prove(ctx, f, m.Name).about(m.Name)...)
		}
	}
	if found == nil {
		return skipped("no files for what it serves (-files MODEL=DIR)")
	}
	return found
}

func (p *patient) prove(ctx context.Context, f *modelFiles, model string) findings {
	switch {
	case f.err != nil:
		return skipped("the files are refused")
	case p.engine == fleet.EngineSGLang:
		return skipped("chats are not computed from files for SGLang, which converts messages in a way of its own")
	}
	f.prover.Join(p.promptEngine(), []string{model})
	var r prompt.ProofReport
	wait(ctx, func() bool {
		for _, each := range f.prover.Status() {
			if each.Engine == p.worker.Name {
				r = each
			}
		}
		return r.State != prompt.ProofPending
	})
	facts := Facts{"proof": r.State.String(), "assets": r.Assets, "compared": r.Compared, "skipped": r.Skipped}
	const offer = "Start vLLM with --enable-scale-out, which has /render. Until then prompts are used unproven, and say so."
	switch r.State {
	case prompt.ProofPassed:
		p.proven[model] = true
		return ok("%d prompts computed from the files are the engine's, token for token", r.Compared).with(facts)
	case prompt.ProofFailed:
		d := r.Difference
		facts["probe"], facts["position"] = d.Probe, d.Position
		facts["local"], facts["engine"] = d.Local.String(), d.Engine.String()
		return fault("%s", d).
			advise("The engine has other files or another template: compare tokenizer.json, tokenizer_config.json, " +
				"the chat template and its options (--chat-template, --default-chat-template-kwargs). " +
				"Until they agree the router asks the engine instead.").with(facts)
	case prompt.ProofImpossible:
		return warning("nothing to compare with: %s", r.Reason).advise(offer).with(facts)
	case prompt.ProofPending:
	default:
	}
	return fault("the engine gives no answer to compare with: %s", r.Reason).
		advise("Look into the engine's log; see tokens below.").with(facts)
}
