package prompt

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// In an Encoder: the engine serves until the proof is done, then the local source
// does, and what isn't proven is said.
func TestProverInAnEncoder(t *testing.T) {
	t.Parallel()
	e := newToyEngine(renders)
	engines := fleetOf{"a": e}
	prove(t, ProverOptions{}, engines, func(g *proofRig) {
		t := g.t
		enc := NewEncoder(Options{Sources: []Source{&stillLocal{}, g.Prover}, Client: roundTrip(engines.RoundTrip).client()})
		assert.Same(t, g.Prover, enc.Prover())
		require.NoError(t, enc.Close())
		enc = NewEncoder(Options{Client: roundTrip(engines.RoundTrip).client()})
		assert.Nil(t, enc.Prover())
		require.NoError(t, enc.Close())

		enc = NewEncoder(Options{Sources: []Source{g.Prover}, Client: roundTrip(engines.RoundTrip).client(), CacheBytes: -1})
		defer func() { require.NoError(t, enc.Close()) }()
		ask := func() (SourceKind, string) {
			got, err := enc.Encode(t.Context(), &Request{API: Completions, Model: "m", Body: []byte(`{"prompt":"a"}`), Engine: at("a")})
			require.NoError(t, err)
			return got.Source, reasons(got)
		}
		check := func(source SourceKind, degraded string) {
			t.Helper()
			gotSource, gotDegraded := ask()
			assert.Equal(t, source, gotSource)
			assert.Equal(t, degraded, gotDegraded)
		}
		check(SourceLocal, "local: not proven against the engine: no engine to ask; ")
		g.Join(at("a"), []string{"m"})
		check(SourceRender, "local: not yet proven against the engine; ")
		synctest.Wait()
		check(SourceLocal, "")
		e.behave(func(string, jsonscan.Object) (int, string) { return 200, `{"token_ids":[1]}` })
		g.local.set("m", "v2", false)
		check(SourceRender, "local: not yet proven against the engine; ")
		synctest.Wait()
		check(SourceRender, "local: ids differ from the engine's; ")
		e.behave(bare)
		g.local.set("m", "v3", false)
		ask()
		synctest.Wait()
		check(SourceLocal, "local: not proven against the engine: endpoint not available; ")
	})
}

// A source that swaps its files between two calls is caught at it.
func TestProofOfSwappedAssets(t *testing.T) {
	t.Parallel()
	prove(t, ProverOptions{}, fleetOf{"a": newToyEngine(renders)}, func(g *proofRig) {
		t := g.t
		swapped := &swapping{toyLocal: g.local}
		p := NewProver(swapped, g.opts)
		defer func() { require.NoError(t, p.Close()) }()
		p.Join(at("a"), []string{"m"})
		synctest.Wait()
		body := []byte(`{"prompt":"a"}`)
		r := &Request{API: Completions, Model: "m", Body: body, Object: object(t, string(body))}
		_, err := p.Encode(t.Context(), r)
		require.NoError(t, err)
		swapped.swap("v2")
		_, err = p.Encode(t.Context(), r)
		assert.Equal(t, errNotProven, err)
	})
}

type swapping struct {
	*toyLocal

	by string
}

func (s *swapping) Encode(ctx context.Context, r *Request) (Encoding, error) {
	enc, err := s.toyLocal.Encode(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	enc.Assets = "v1"
	if s.by != "" {
		enc.Assets = s.by
	}
	return enc, err
}

func (s *swapping) swap(by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = by
}

// The cost of a proof to each request.
func TestProverAllocatesNothing(t *testing.T) {
	const passed = "passed"
	still := &stillLocal{}
	p := NewProver(still, ProverOptions{})
	defer func() { require.NoError(t, p.Close()) }()
	r := &Request{API: Completions, Model: "m"}
	encodes := func() {
		enc, err := p.Encode(t.Context(), r)
		if err != nil || enc.Source != SourceLocal {
			t.Error(err)
		}
	}
	assert.Zero(t, testing.AllocsPerRun(100, encodes), "nobody asked")
	known := &proof{report: ProofReport{Assets: passed, State: ProofPassed}}
	known.apis[Completions] = true
	p.engines["a"] = &provenEngine{models: []string{"m"}, proofs: map[string]*proof{"m": known}}
	p.models["m"] = &provenModel{}
	enc, err := p.Encode(t.Context(), r)
	require.NoError(t, err)
	require.Empty(t, enc.Degraded)
	assert.Zero(t, testing.AllocsPerRun(100, encodes), passed)
}

// stillLocal has one encoding.
type stillLocal struct{ toyLocal }

func (*stillLocal) Assets(string) string { return "passed" }

func (*stillLocal) Encode(context.Context, *Request) (Encoding, error) {
	return Encoding{Source: SourceLocal}, nil
}

// A Prover of nothing says so, rather than fail at the first request.
func TestProverOfNothing(t *testing.T) {
	t.Parallel()
	p := NewProver(nil, ProverOptions{})
	p.Join(at("a"), []string{"m"})
	e := newEncoder(t, Options{Sources: []Source{p}})
	enc := encode(t, e, Completions, text("a"), "")
	assert.Equal(t, SourceBytes, enc.Source)
	assert.Equal(t, "local: no local source was given to NewProver; render: no engine to ask; tokenize: no engine to ask; ", reasons(enc))
	assert.Empty(t, p.Assets("m"))
	require.NoError(t, p.Close())
}
