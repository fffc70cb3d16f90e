package prompt

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// beginner is a local source that knows how prompts begin, and serves none whole.
type beginner struct {
	toyLocal

	enc   Encoding
	err   error
	asked int
}

func (*beginner) Encode(context.Context, *Request) (Encoding, error) { return Encoding{}, errMedia }

func (b *beginner) Prefix(ctx context.Context, _ *Request) (Encoding, error) {
	b.asked++
	if b.err != nil {
		return Encoding{}, b.err
	}
	return b.enc, ctx.Err()
}

const withImage = `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`

func beginning(count int, ids ...uint32) Encoding {
	return Encoding{Source: SourcePrefix, Tokens: ids, Count: count, Assets: "v1"}
}

// The beginning of a prompt serves where nobody has all of it, if it is most of it.
func TestPrefixServesLast(t *testing.T) {
	t.Parallel()
	const passed = "local: multimodal parts; render: no engine to ask; tokenize: multimodal parts; "
	for name, c := range map[string]struct {
		enc  Encoding
		err  error
		want SourceKind
		why  string // what is said on top
	}{
		"most":           {enc: beginning(6, 1, 2, 3), want: SourcePrefix},
		"too little":     {enc: beginning(7, 1, 2, 3), want: SourceBytes, why: "prefix: most of the prompt is behind its first media; "},
		"refused":        {err: ReasonError("no such model"), want: SourceBytes, why: "prefix: no such model; "},
		"broken":         {err: http.ErrAbortHandler, want: SourceBytes, why: "prefix: source failed; "},
		"not applicable": {err: ErrNotApplicable, want: SourceBytes},
		"empty":          {enc: beginning(0), want: SourceBytes, why: "prefix: source failed; "},
		"of another":     {enc: *exact(SourceLocal, []uint32{1}, 0).ref(), want: SourceBytes, why: "prefix: source failed; "},
	} {
		b := &beginner{enc: c.enc, err: c.err}
		e := newEncoder(t, Options{Sources: []Source{b}})
		enc := encode(t, e, Chat, withImage, "")
		assert.Equal(t, c.want, enc.Source, name)
		assert.Equal(t, passed+c.why, reasons(enc), name)
		if c.want == SourcePrefix {
			assert.Equal(t, c.enc.Tokens, enc.Tokens, name)
			assert.Equal(t, c.enc.Count, enc.Count, name)
			assert.Equal(t, "v1", enc.Assets, name)
		}
	}
}

func (e Encoding) ref() *Encoding { return &e }

// An engine that has all of a prompt goes first, whatever that costs.
func TestPrefixAfterTheEngine(t *testing.T) {
	t.Parallel()
	client := roundTrip(func(*http.Request) (*http.Response, error) {
		return ok(`{"token_ids":[1,2,3,4],"features":{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":2,"length":1}]}}}`)
	}).client()
	b := &beginner{enc: beginning(3, 1, 2)}
	e := newEncoder(t, Options{Sources: []Source{b}, Client: client})
	enc := encode(t, e, Chat, withImage, "http://a")
	assert.Equal(t, SourceRender, enc.Source)
	assert.Len(t, enc.Items, 1)
	assert.Zero(t, b.asked)
}

// One that does not answer in time leaves time for the beginning, but not when the
// client is gone.
func TestPrefixAfterADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}).client()
		b := &beginner{enc: beginning(3, 1, 2)}
		e := newEncoder(t, Options{Sources: []Source{b}, Client: client, Deadline: DefaultDeadline})
		began := time.Now()
		enc := encode(t, e, Chat, withImage, "http://a")
		assert.Equal(t, SourcePrefix, enc.Source)
		assert.Equal(t, DefaultDeadline, time.Since(began))
		assert.Equal(t, "local: multimodal parts; render: deadline exceeded; tokenize: deadline exceeded; ", reasons(enc))

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		enc, err := e.Encode(gone, &Request{API: Chat, Model: "m", Body: []byte(withImage)})
		require.NoError(t, err)
		assert.Equal(t, SourceBytes, enc.Source)
		assert.Equal(t, 1, b.asked)
	})
}

// What waits for the same answer of an engine has reasons of its own.
func TestPrefixesSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}).client()
		e := newEncoder(t, Options{Sources: []Source{unsureBeginner{}}, Client: client})
		done := make(chan string)
		const many = 8
		for range many {
			go func() {
				enc, err := e.Encode(t.Context(), &Request{
					API: Chat, Model: "m", Body: []byte(withImage), Engine: Engine{BaseURL: "http://a"},
				})
				assert.NoError(t, err)
				done <- reasons(enc)
			}()
		}
		for range many {
			assert.Equal(t, "local: multimodal parts; render: deadline exceeded; tokenize: deadline exceeded; local: unsure; ", <-done)
		}
	})
}

type unsureBeginner struct{}

func (unsureBeginner) Kind() SourceKind { return SourceLocal }

func (unsureBeginner) Encode(context.Context, *Request) (Encoding, error) {
	return Encoding{}, errMedia
}

func (unsureBeginner) Prefix(context.Context, *Request) (Encoding, error) {
	enc := beginning(3, 1, 2)
	enc.Degraded = []Degradation{{SourceLocal, "unsure"}}
	return enc, nil
}

// A Prover lets beginnings through as it does prompts: when an engine has confirmed
// the files.
func TestProverGatesPrefixes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &provable{beginner{toyLocal: toyLocal{assets: map[string]string{"m": "v1"}}, enc: beginning(3, 1, 2)}}
		p := NewProver(b, ProverOptions{Client: &http.Client{Transport: fleetOf{"a": newToyEngine(renders)}}})
		defer func() { assert.NoError(t, p.Close()) }()
		r := &Request{API: Chat, Model: "m", Body: []byte(withImage), Object: object(t, withImage)}

		enc, err := p.Prefix(t.Context(), r)
		require.NoError(t, err)
		assert.Equal(t, []Degradation{{SourceLocal, "not proven against the engine: no engine to ask"}}, enc.Degraded)
		p.Join(at("a"), []string{"m"})
		_, err = p.Prefix(t.Context(), r)
		require.ErrorIs(t, err, ErrNotApplicable, "Encode says that it is not proven yet")
		synctest.Wait()
		enc, err = p.Prefix(t.Context(), r)
		require.NoError(t, err)
		assert.Equal(t, b.enc, enc)

		// Requests disprove how prompts begin, and nothing else.
		for range DefaultAuditMismatches {
			m := p.Observe(&Observation{Engine: "a@1", Model: "m", Encoding: &enc, PromptTokens: 9, PromptIDs: []uint32{1, 7, 9}})
			require.NotNil(t, m)
			assert.Equal(t, 1, m.Position)
		}
		_, err = p.Prefix(t.Context(), r)
		assert.Equal(t, errDisproved, err)
		_, err = p.Encode(t.Context(), &Request{API: Chat, Model: "m", Object: object(t, `{"messages":[{"role":"user","content":"a"}]}`)})
		require.NoError(t, err)
		b.set("m", "v2", false)
		_, err = p.Prefix(t.Context(), r)
		require.ErrorIs(t, err, ErrNotApplicable, "other files")
		synctest.Wait()
		b.enc.Assets = "v2"
		_, err = p.Prefix(t.Context(), r)
		require.NoError(t, err)
		b.set("m", "v1", false)
		synctest.Wait()
		time.Sleep(maxHold)
		_, err = p.Prefix(t.Context(), r)
		require.ErrorIs(t, err, ErrNotApplicable)
		synctest.Wait()
		_, err = p.Prefix(t.Context(), r)
		assert.Equal(t, errNotProven, err, "it was of v2")
	})
	plain := NewProver(&toyLocal{}, ProverOptions{})
	_, err := plain.Prefix(t.Context(), &Request{})
	require.ErrorIs(t, err, ErrNotApplicable)
	require.NoError(t, plain.Close())
}

// provable serves what has no media, too.
type provable struct{ beginner }

func (p *provable) Encode(ctx context.Context, r *Request) (Encoding, error) {
	return p.toyLocal.Encode(ctx, r)
}

func TestAuditOfPrefixes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		count    int
		ids      []uint32
		position int // of the mismatch; -2 for none
	}{
		"more tokens":      {4, nil, -2},
		"no more tokens":   {3, nil, -1},
		"nothing reported": {-1, nil, -2},
		"the same ids":     {9, []uint32{1, 2, 3, 7, 7}, -2},
		"another id":       {9, []uint32{1, 7, 3, 7, 7}, 1},
		"fewer ids":        {-1, []uint32{1, 2}, 2},
	} {
		enc := beginning(600, 1, 2, 3)
		m := NewAuditor(AuditOptions{}).Observe(&Observation{Engine: "e", Model: "m", Encoding: &enc, PromptTokens: c.count, PromptIDs: c.ids})
		if c.position == -2 {
			assert.Nil(t, m, name)
			continue
		}
		require.NotNil(t, m, name)
		assert.Equal(t, c.position, m.Position, name)
		assert.Equal(t, SourcePrefix, m.Source, name)
	}
}
