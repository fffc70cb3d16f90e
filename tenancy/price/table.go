package price

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Table finds prices. Make it with [New]. Safe for concurrent use; what it returns must
// not be modified.
type Table struct {
	sellers map[string]*seller
	aliases map[string]string
	entries int
}

// seller is what one provider, or the fleet, asks for.
type seller struct {
	models map[string]*Entry
	// prefixes are the models that end in an asterisk, the longest first, without it.
	prefixes []prefix
}

type prefix struct {
	text  string
	entry *Entry
}

// New returns a Table of entries; of two for one model of a provider the later counts, so
// that own prices come after those of a public list. aliases are further names of
// providers: one that has no price for a model of its own asks for what the other does.
// The error joins all that is wrong.
func New(entries []Entry, aliases map[string]string) (*Table, error) {
	t := &Table{sellers: map[string]*seller{}, aliases: make(map[string]string, len(aliases))}
	var bad []error
	for i := range entries {
		e := entries[i]
		if err := e.check(); err != nil {
			bad = append(bad, fmt.Errorf("price: entry %d (provider %q, model %q): %w", i, e.Provider, e.Model, err))
			continue
		}
		e.Tiers, e.Supports, e.Lacks = slices.Clone(e.Tiers), slices.Clone(e.Supports), slices.Clone(e.Lacks)
		t.add(&e)
	}
	for name, of := range aliases {
		if err := checkAlias(name, of); err != nil {
			bad = append(bad, fmt.Errorf("price: alias %q of %q: %w", name, of, err))
			continue
		}
		t.aliases[name] = of
	}
	if len(bad) > 0 {
		slices.SortFunc(bad, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(bad...)
	}
	return t, nil
}

func checkAlias(name, of string) error {
	switch {
	case name == Fleet || name == Any || of == Fleet || of == Any:
		return errors.New("both must be names of providers")
	case name == of:
		return errors.New("it is another name of itself; remove it")
	default:
		return nil
	}
}

func (e *Entry) check() error {
	name, _ := strings.CutSuffix(e.Model, "*")
	switch {
	case e.Model == "":
		return errors.New(`it has no Model; "*" stands for all`)
	case strings.Contains(name, "*"):
		return errors.New("an asterisk in the Model must be the last character")
	case e.Request < 0 || e.Request > Max:
		return fmt.Errorf("the price of a request, %d, must be from 0 to %d", e.Request, int64(Max))
	default:
	}
	if err := e.Prices.check(); err != nil {
		return err
	}
	for i := range e.Tiers {
		switch {
		case e.Tiers[i].Above < 1:
			return fmt.Errorf("tier %d is for prompts above %d tokens; the least is 1", i, e.Tiers[i].Above)
		case i > 0 && e.Tiers[i].Above <= e.Tiers[i-1].Above:
			return fmt.Errorf("tier %d is not above the one before it; put them in order", i)
		default:
		}
		if err := e.Tiers[i].check(); err != nil {
			return fmt.Errorf("tier %d: %w", i, err)
		}
	}
	return nil
}

func (p *Prices) check() error {
	for _, n := range []int64{p.Input, p.Output, p.CacheRead.amount, p.CacheWrite.amount, p.Reasoning.amount} {
		if n < 0 || n > Max {
			return fmt.Errorf("the price %d must be from 0 to %d millionths of the currency per million tokens", n, int64(Max))
		}
	}
	return nil
}

func (t *Table) add(e *Entry) {
	s := t.sellers[e.Provider]
	if s == nil {
		s = &seller{models: map[string]*Entry{}}
		t.sellers[e.Provider] = s
	}
	e.Model = bare(e.Provider, e.Model)
	text, all := strings.CutSuffix(e.Model, "*")
	if !all {
		if s.models[e.Model] == nil {
			t.entries++
		}
		s.models[e.Model] = e
		return
	}
	at, found := slices.BinarySearchFunc(s.prefixes, text, func(p prefix, text string) int {
		return cmp.Or(cmp.Compare(len(text), len(p.text)), cmp.Compare(p.text, text))
	})
	if found {
		s.prefixes[at].entry = e
		return
	}
	s.prefixes = slices.Insert(s.prefixes, at, prefix{text, e})
	t.entries++
}

// bare is a model's name without its provider's before it, openai/ for one: lists and
// clients write it or not, or twice where that is part of the name too.
func bare(provider, model string) string {
	for n := len(provider); n > 0 && len(model) > n+1 && model[n] == '/' && model[:n] == provider; {
		model = model[n+1:]
	}
	return model
}

// Len is the number of prices in the Table.
func (t *Table) Len() int { return t.entries }

// Find returns the price of a model at a provider, nil if there is none: of the provider
// itself, else of the one that it is an alias of, else of [Any]; in each the model's own,
// else the longest name with an asterisk. The [Fleet] has its own prices only. Whether
// the provider's name and a slash stand before the model's makes no difference.
func (t *Table) Find(provider, model string) *Entry {
	if e := t.sellers[provider].find(bare(provider, model)); e != nil || provider == Fleet {
		return e
	}
	if of, ok := t.aliases[provider]; ok {
		if e := t.sellers[of].find(bare(of, bare(provider, model))); e != nil {
			return e
		}
	}
	return t.sellers[Any].find(bare(provider, model))
}

func (s *seller) find(model string) *Entry {
	if s == nil {
		return nil
	}
	if e := s.models[model]; e != nil {
		return e
	}
	for i := range s.prefixes {
		if strings.HasPrefix(model, s.prefixes[i].text) {
			return s.prefixes[i].entry
		}
	}
	return nil
}

// Cost returns what a request to a provider costs, in millionths of the currency, as
// [Entry.Cost] does; known is false, and the cost 0, if the Table has no price for it.
func (t *Table) Cost(provider, model string, tokens *Tokens) (cost int64, known bool) {
	e := t.Find(provider, model)
	if e == nil {
		return 0, false
	}
	return e.Cost(tokens), true
}
