package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Engine names the rules that are reproduced here.
const Engine = "vLLM 0.32"

// Source computes prompts of the models that it has the files of. Make it with
// [New], put it into [prompt.Options].Sources, close it when done. Safe for
// concurrent use.
type Source struct {
	opts   Options
	models map[string]*entry // aliases included

	stop    context.CancelFunc
	running sync.WaitGroup
}

// entry is a model and the files in force for it.
type entry struct {
	name   string
	model  Model
	now    atomic.Pointer[assets]
	err    atomic.Pointer[error] // of the last attempt to reload; nil if it went well
	failed []stamp               // the stamps that err is about; only the reloader reads it
}

var (
	_ prompt.Local    = (*Source)(nil)
	_ prompt.Prefixer = (*Source)(nil)
)

// AssetError says which model's files can't be used.
type AssetError struct {
	// Model is the name given in Options.Models, Dir that model's directory.
	Model, Dir string
	// Err says why: for example a [*ModelTypeError], [ErrTokenizerClass], [ErrStandIn],
	// [ErrRevision], an error of package tokenizer or jinja, or of the file system.
	Err error
}

// Error names the model, its directory and the reason.
func (e *AssetError) Error() string { return fmt.Sprintf("model %q in %q: %v", e.Model, e.Dir, e.Err) }

// Unwrap returns the reason.
func (e *AssetError) Unwrap() error { return e.Err }

// New loads the models' files and returns a Source that watches them. It fails if
// any model can't be served, with an [*AssetError] for each; leave those out to
// serve the others.
func New(o Options) (*Source, error) {
	o = o.withDefaults()
	s := &Source{opts: o, models: make(map[string]*entry, len(o.Models)+len(o.Aliases))}
	if len(o.Models) == 0 {
		return nil, errors.New("local: Options.Models is empty: name at least one model and the directory of its files")
	}
	var errs []error
	for name, m := range o.Models {
		e := &entry{name: name, model: m}
		a, err := load(m, &o)
		if err != nil {
			errs = append(errs, &AssetError{Model: name, Dir: m.Dir, Err: err})
			continue
		}
		e.now.Store(a)
		s.models[name] = e
	}
	for alias, name := range o.Aliases {
		if _, taken := o.Models[alias]; taken {
			errs = append(errs, fmt.Errorf("local: %q is both a model and an alias", alias))
		}
		if _, known := o.Models[name]; !known {
			errs = append(errs, fmt.Errorf("local: alias %q is of %q, which is not in Options.Models", alias, name))
		}
		if e := s.models[name]; e != nil {
			s.models[alias] = e
		}
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(errs...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	if o.Reload > 0 {
		s.running.Go(func() { s.watch(ctx) })
	}
	return s, nil
}

// Kind implements [prompt.Source].
func (*Source) Kind() prompt.SourceKind { return prompt.SourceLocal }

// Encode implements [prompt.Source]. It works in the calling goroutine and does not
// wait for anything. Requests for models that it does not have are not applicable.
func (s *Source) Encode(ctx context.Context, r *prompt.Request) (prompt.Encoding, error) {
	a, o, err := s.find(r)
	if err != nil {
		return prompt.Encoding{}, err
	}
	return a.encode(ctx, r.API, o)
}

// find returns the files in force for a request, and the request parsed.
func (s *Source) find(r *prompt.Request) (*assets, jsonscan.Object, error) {
	e, found := s.models[r.Model]
	if !found {
		return nil, jsonscan.Object{}, prompt.ErrNotApplicable
	}
	o := r.Object
	if len(o.Bytes()) == 0 {
		var err error
		if o, err = jsonscan.Parse(r.Body, 0); err != nil {
			return nil, o, errField
		}
	}
	return e.now.Load(), o, nil
}

func (a *assets) encode(ctx context.Context, api prompt.API, o jsonscan.Object) (prompt.Encoding, error) {
	out := prompt.Encoding{Source: prompt.SourceLocal, Assets: a.hash}
	if api == prompt.Completions {
		return a.completions(out, o)
	}
	if a.model.SGLang {
		return prompt.Encoding{}, errSGLang
	}
	q, err := a.query(api, o)
	if err != nil {
		return prompt.Encoding{}, err
	}
	if _, some := q.media(); some || q.tuned {
		return prompt.Encoding{}, errMedia
	}
	if out.Tokens, err = a.rendered(ctx, q); err != nil {
		return prompt.Encoding{}, err
	}
	out.Count = len(out.Tokens)
	return out, nil
}

func (a *assets) query(api prompt.API, o jsonscan.Object) (q *query, err error) {
	switch api {
	case prompt.Chat:
		q, err = chatQuery(o)
	case prompt.Messages:
		q, err = messagesQuery(o, a)
	case prompt.Responses:
		q, err = responsesQuery(o)
	default:
		return nil, errAPI
	}
	if err != nil {
		return nil, err
	}
	q.scope = prompt.Salt(o)
	return q, nil
}

// completions encodes the first prompt and counts all.
func (a *assets) completions(out prompt.Encoding, o jsonscan.Object) (prompt.Encoding, error) {
	if a.model.SGLang && (o.Value("add_special_tokens").Exists() || o.Value("truncate_prompt_tokens").Exists()) {
		return prompt.Encoding{}, errField // vLLM's own
	}
	texts, special, c, err := completionTexts(o)
	if err != nil {
		return prompt.Encoding{}, err
	}
	for i, text := range texts {
		ids, idsErr := a.ids(prompt.Salt(o), text, special, c)
		if idsErr != nil {
			return prompt.Encoding{}, idsErr
		}
		if i == 0 {
			out.Tokens = ids
		}
		out.Count += len(ids)
	}
	if len(out.Tokens) == 0 {
		return prompt.Encoding{}, errEmpty
	}
	return out, nil
}

// Assets identifies the contents of the files that serve a model, as in
// [prompt.Encoding]; "" if the model is not served.
func (s *Source) Assets(model string) string {
	if e, found := s.models[model]; found {
		return e.now.Load().hash
	}
	return ""
}

// Token spells a token of a model.
func (s *Source) Token(model string, id uint32) (string, bool) {
	if e, found := s.models[model]; found {
		return e.now.Load().tokenizer.Token(id)
	}
	return "", false
}

// Close ends the watching of files and waits for it. Encode works on. It always
// returns nil.
func (s *Source) Close() error {
	s.stop()
	s.running.Wait()
	return nil
}
