package tokenizer

import (
	"errors"
	"fmt"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/bpe"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/jsontree"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/rx"
)

// maxFile bounds a tokenizer file. The largest known ones have 35 MB.
const maxFile = 512 << 20

// loader gathers what a file describes.
type loader struct {
	model       modelFile
	added       []addedToken
	normalizers []normalizer
	shifts      bool // a normalizer may move characters
	stages      []stage
	byteLevel   bool // a ByteLevel pre-tokenizer is among the stages
	mapped      int  // how many stages come before it spells bytes as characters
	rewrites    bool // a stage rewrites pieces
	framed      bool
	components  int // how many have been opened
	before      []uint32
	after       []uint32

	rx       rx.Compiler
	alphabet *rx.Alphabet
}

// Load reads a tokenizer.json. Everything in it is either done exactly as the Rust
// tokenizers do, or refused here, with a *LoadError that wraps ErrUnsupported, or
// ErrMalformed. Truncation, padding and decoder don't concern the ids of a prompt and are
// ignored. Time and memory are proportional to the size of data, which isn't kept.
func Load(data []byte, o Options) (*Tokenizer, error) {
	if len(data) > maxFile {
		return nil, unsupportedf("", "larger than %d MiB", maxFile>>20)
	}
	l := &loader{}
	parts, err := l.read(data)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if p.value.Kind == jsontree.Null {
			continue
		}
		if err := p.load(p.name, p.value); err != nil {
			return nil, err
		}
	}
	return l.build(o)
}

// filePart is a small part of the file, with what loads it.
type filePart struct {
	name  string
	value *jsontree.Value
	load  func(path string, v *jsontree.Value) error
}

// read goes through the file once, and returns its small parts in the order in which they
// are to be loaded.
func (l *loader) read(data []byte) ([]filePart, error) {
	parts := []filePart{
		{name: "added_tokens", load: func(_ string, v *jsontree.Value) error { return l.loadAdded(v) }},
		{name: "normalizer", load: l.loadNormalizer},
		{name: "pre_tokenizer", load: l.loadPreTokenizer},
		{name: "post_processor", load: l.loadPost},
		{name: "version", load: loadVersion},
	}
	for i := range parts {
		parts[i].value = &jsontree.Value{}
	}
	seen := map[string]bool{}
	d := jsontree.NewDecoder(data)
	err := d.Object(func(key []byte) error {
		name := string(key)
		if seen[name] {
			return malformedf(name, "it occurs twice")
		}
		seen[name] = true
		switch name {
		case "model":
			return l.model.read(d)
		case "truncation", "padding", "decoder":
			return d.Skip()
		}
		for i := range parts {
			if parts[i].name == name {
				v, err := d.Value()
				*parts[i].value = v
				return err
			}
		}
		return unsupportedf(name, "unknown part of the file")
	})
	if err == nil {
		err = d.End()
	}
	var refused *LoadError
	switch {
	case err != nil && !errors.As(err, &refused):
		return nil, &LoadError{Err: fmt.Errorf("%w: %w", ErrMalformed, err)}
	case err != nil:
		return nil, err
	case !seen["model"]:
		return nil, malformedf("model", "it is missing")
	}
	return parts, nil
}

func loadVersion(path string, v *jsontree.Value) error {
	if v.Kind != jsontree.String || v.Text != "1.0" {
		return unsupportedf(path, "only 1.0 is known")
	}
	return nil
}

// build makes the tokenizer of what was read.
func (l *loader) build(o Options) (*Tokenizer, error) {
	l.finishStages()
	alphabet, err := l.rx.Finish()
	if err != nil {
		return nil, unsupportedf("pre_tokenizer", "%v", err)
	}
	l.alphabet = alphabet
	words, segments := o.split()
	model, err := bpe.New(l.model.config(l.byteLevel, words))
	if err != nil {
		return nil, unsupportedf("model", "%v", err)
	}
	t := &Tokenizer{
		model:       model,
		vocab:       l.model.vocab,
		tokens:      l.model.tokens,
		normalizers: l.normalizers,
		stages:      l.stages,
		before:      l.before,
		after:       l.after,
		segments:    newSegments(segments),
	}
	for _, s := range l.stages {
		if m, ok := s.(metaspace); ok && m.onlyFirst {
			t.firstDiffers = true
		}
	}
	if err := t.add(l.added); err != nil {
		return nil, err
	}
	return t, nil
}

// add gives the added tokens their ids and makes the finders. As in the Rust code, the id
// in the file counts for nothing: a token of the vocabulary keeps its id, the others are
// numbered from the size of the vocabulary on.
func (t *Tokenizer) add(added []addedToken) error {
	next := uint32(len(t.vocab))
	t.added = map[string]uint32{}
	byID := map[uint32]int{}
	var tokens []addedToken
	for _, a := range added {
		if a.content == "" {
			continue
		}
		id, ok := t.ID(a.content)
		if !ok {
			id = next
			next++
			if _, taken := t.Token(id); taken {
				return unsupportedf("added_tokens", "a token would get the id of another")
			}
		}
		a.id = id
		t.added[a.content] = id
		if i, again := byID[id]; again {
			tokens[i] = a
			continue
		}
		byID[id] = len(tokens)
		tokens = append(tokens, a)
	}
	t.names = make(map[uint32]string, len(tokens))
	var raw, normal []addedToken
	for _, a := range tokens {
		t.names[a.id] = a.content
		if a.normalized {
			normal = append(normal, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw, t.normal = newFinder(raw), newFinder(normal)
	w := t.borrow()
	for i, a := range raw {
		if !t.raw.put([]byte(a.content), i) {
			return unsupportedf("added_tokens", "two tokens are the same")
		}
	}
	for i, a := range normal {
		spelling, err := t.normalize([]byte(a.content), w)
		if err != nil {
			return unsupportedf("added_tokens", "%v", err)
		}
		if !t.normal.put(spelling, i) {
			return unsupportedf("added_tokens", "a token is empty, or the same as another, once normalized")
		}
	}
	t.giveBack(w)
	return nil
}
