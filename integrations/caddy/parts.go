package kvsteercaddy

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	policyfile "github.com/kvsteer/kvsteer/policy/file"
)

// openRules opens the policies, and the classifiers for tags that they may ask for.
func (r *routerRoom) openRules(logger *slog.Logger) ([]kvsteer.Option, error) {
	if r.config.Policy == "" {
		return nil, nil
	}
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	if err != nil {
		return nil, err
	}
	classifiers, err := classify.NewSet(classify.SetOptions{
		Members: []classify.Member{{Classifier: scanner}, {Classifier: new(classify.LengthHeuristic)}},
	})
	if err != nil {
		return nil, err
	}
	r.ruled = policy.CheckOptions{Tags: classifiers.Tags()} // a tag that nobody produces is refused
	r.rules, err = policyfile.Open(r.config.Policy, policyfile.Options{
		Check:  r.ruled,
		Logger: logger, // says what is wrong with a change, and where
	})
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	r.closers = append(r.closers, r.rules.Close)
	return []kvsteer.Option{kvsteer.WithPolicy(r.rules), kvsteer.WithClassifiers(classifiers)}, nil
}

// openModels computes prompts from the models' files, as long as each engine confirms
// that it has the same ids, and asks the engines where it can't.
func (r *routerRoom) openModels(logger *slog.Logger) ([]kvsteer.Option, error) {
	if len(r.config.Models) == 0 {
		return nil, nil
	}
	models := map[string]local.Model{}
	for name, dir := range r.config.Models {
		models[name] = local.Model{Dir: dir}
	}
	source, err := local.New(local.Options{Models: models, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	prover := prompt.NewProver(source, prompt.ProverOptions{OnReport: func(p *prompt.ProofReport) {
		level := slog.LevelInfo
		if p.State == prompt.ProofFailed { // requests ask the engine from now on
			level = slog.LevelError
		}
		logger.Log(context.Background(), level, "prompts compared with an engine", "report", p.String())
	}})
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{prover}})
	r.closers = append(r.closers, source.Close, prover.Close, encoder.Close)
	return []kvsteer.Option{kvsteer.WithEncoder(encoder)}, nil
}
