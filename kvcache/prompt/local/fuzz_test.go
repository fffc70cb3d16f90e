package local_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/kvsteer/kvsteer/internal/e2e/prompt/requests"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// Whatever the body: ids within the vocabulary, the same each time, or a reason.
func FuzzEncode(f *testing.F) {
	names := smallModels(f)
	sources := make([]prompt.Source, len(names))
	for i, name := range names {
		sources[i] = one(f, name, nil)
	}
	for seed := range uint64(60) {
		r := requests.New(seed, "m").Next()
		f.Add(r.Body, uint8(r.API), uint8(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte, api, model uint8) {
		o, err := jsonscan.Parse(body, 0)
		if err != nil {
			return
		}
		s := sources[int(model)%len(sources)]
		r := &prompt.Request{API: prompt.API(api % 6), Model: "m", Body: body, Object: o}
		original := slices.Clone(body)
		enc, err := s.Encode(t.Context(), r)
		again, errAgain := s.Encode(t.Context(), r)
		if !slices.Equal(original, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			var why prompt.ReasonError
			if !errors.As(err, &why) || errAgain == nil || err.Error() != errAgain.Error() {
				t.Fatalf("%v, then %v", err, errAgain)
			}
			return
		}
		if errAgain != nil || !slices.Equal(enc.Tokens, again.Tokens) {
			t.Fatalf("not the same twice: %v", errAgain)
		}
		const vocabulary = 1000
		if len(enc.Tokens) == 0 || enc.Count < len(enc.Tokens) || slices.Max(enc.Tokens) >= vocabulary {
			t.Fatalf("%d ids, count %d", len(enc.Tokens), enc.Count)
		}
	})
}

// Whatever the body: a beginning without a placeholder in it, of what can't be served
// whole, or a reason.
func FuzzPrefix(f *testing.F) {
	sources := []*local.Source{withMedia(f, mediaParts, nil, nil), withMedia(f, mediaStrings, nil, nil)}
	for seed := range uint64(60) {
		g := requests.New(seed, "m")
		g.Media = true
		r := g.Next()
		f.Add(r.Body, uint8(r.API), uint8(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte, api, model uint8) {
		o, err := jsonscan.Parse(body, 0)
		if err != nil {
			return
		}
		s := sources[int(model)%len(sources)]
		r := &prompt.Request{API: prompt.API(api % 6), Model: "m", Body: body, Object: o}
		enc, err := s.Prefix(t.Context(), r)
		if err != nil {
			var why prompt.ReasonError
			if !errors.As(err, &why) && !errors.Is(err, prompt.ErrNotApplicable) {
				t.Fatal(err)
			}
			return
		}
		if _, whole := s.Encode(t.Context(), r); whole == nil {
			t.Fatal("served whole, too")
		}
		if len(enc.Tokens) == 0 || enc.Count <= len(enc.Tokens) || slices.Contains(enc.Tokens, shownID) {
			t.Fatalf("%v, count %d", enc.Tokens, enc.Count)
		}
	})
}
