package kvsteer_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// fakes computes completions as the fake engines do, and wrongly on demand.
type fakes struct {
	wrong atomic.Bool // one token too many
	other atomic.Bool // as many, one of them another
}

func (*fakes) Kind() prompt.SourceKind { return prompt.SourceLocal }

func (*fakes) Assets(model string) string {
	if model != testModel {
		return ""
	}
	return "files-1"
}

func (f *fakes) Encode(_ context.Context, r *prompt.Request) (prompt.Encoding, error) {
	text, ok := r.Object.Value("prompt").Str()
	if !ok {
		return prompt.Encoding{}, prompt.ReasonError("only completions of one text")
	}
	ids := fleettest.Tokenize(text)
	if f.wrong.Load() {
		ids = append(ids, 1)
	}
	if f.other.Load() && len(ids) > 0 {
		ids[len(ids)-1]++
	}
	return prompt.Encoding{Source: prompt.SourceLocal, Assets: "files-1", Tokens: ids, Count: len(ids)}, nil
}

// reports collects what a Prover and a router say of prompts.
type reports struct {
	mu         sync.Mutex
	proofs     []prompt.ProofReport
	mismatches []prompt.Mismatch
}

func (r *reports) OnPromptMismatch(m *prompt.Mismatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mismatches = append(r.mismatches, *m)
}

func (r *reports) add(p *prompt.ProofReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proofs = append(r.proofs, *p)
}

func (r *reports) seen() (proofs []prompt.ProofReport, mismatches []prompt.Mismatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(proofs, r.proofs...), append(mismatches, r.mismatches...)
}

func newProven(t *testing.T, local *fakes, engines int, c func(*fleettest.Config)) (*rig, *reports) {
	t.Helper()
	seen := &reports{}
	prover := prompt.NewProver(local, prompt.ProverOptions{OnReport: seen.add, Timeout: wait})
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{prover}, Deadline: wait})
	t.Cleanup(func() {
		require.NoError(t, prover.Close())
		require.NoError(t, encoder.Close())
	})
	r := newRig(t, rigConfig{
		engines: engines, options: []kvsteer.Option{kvsteer.WithEncoder(encoder), kvsteer.WithHooks(seen)},
		engine: func(_ int, f *fleettest.Config) {
			if c != nil {
				c(f)
			}
		},
	})
	return r, seen
}

func textBody(text, more string) string { return `{"model":"m","prompt":"` + text + `"` + more + `}` }

func (r *rig) explainText(text string) *kvsteer.Decision {
	r.t.Helper()
	d, err := r.router.Explain(r.t.Context(), &kvsteer.Request{API: kvsteer.Completions, Body: []byte(textBody(text, ""))})
	require.NoError(r.t, err)
	return d
}

// Workers are compared as they are discovered; ids that pass are used, and decisions
// say what they rest on.
func TestLocalPromptsAreProven(t *testing.T) {
	t.Parallel()
	r, seen := newProven(t, &fakes{}, 2, nil)
	require.Eventually(t, func() bool { return r.explainText("some words").Proof == "proven" }, wait, tick)
	d := r.explainText("some words")
	require.Equal(t, "files-1", d.Assets)
	require.Equal(t, "proven", d.Proof)
	require.NotContains(t, strings.Join(d.Degradations, "\n"), "token ids")
	require.Eventually(t, func() bool { p, _ := seen.seen(); return len(p) == 2 }, wait, tick)

	proofs, _ := seen.seen()
	require.Equal(t, prompt.ProofPassed, proofs[0].State)
	require.NotEqual(t, proofs[0].Engine, proofs[1].Engine)
	for _, text := range []string{"a", "b c", "d e f"} {
		require.Equal(t, http.StatusOK, r.post("/v1/completions", textBody(text, `,"return_token_ids":true`)).status)
	}
	_, wrong := seen.seen()
	require.Empty(t, wrong)
}

func TestWrongLocalPromptsAreNotUsed(t *testing.T) {
	t.Parallel()
	local := &fakes{}
	local.wrong.Store(true)
	r, seen := newProven(t, local, 1, nil)
	require.Eventually(t, func() bool { p, _ := seen.seen(); return len(p) > 0 }, wait, tick)
	proofs, _ := seen.seen()
	require.Equal(t, prompt.ProofFailed, proofs[0].State)
	d := r.explainText("some words")
	require.Equal(t, "tokenize", d.TokenSource)
	require.Empty(t, d.Assets)
	require.Empty(t, d.Proof)
	require.Contains(t, strings.Join(d.Degradations, "\n"), "token ids not from local: ids differ from the engine's")
}

// An engine that can't be asked proves nothing, and the decision says so.
func TestLocalPromptsWithoutProof(t *testing.T) {
	t.Parallel()
	r, _ := newProven(t, &fakes{}, 1, func(c *fleettest.Config) { c.NoTokenize = true })
	// Asked in vain for long enough; until then the next source is asked, and for a
	// moment before that nobody was known who could be.
	require.Eventually(t, func() bool {
		d := r.explainText("some words")
		said := strings.Join(d.Degradations, "\n")
		return d.Proof == "not proven" && strings.Contains(said, "token ids from local: not proven against the engine: endpoint not available")
	}, wait, tick)
}

// Answers are compared as well: by their counts, and by ids where there are any.
// Too many that differ and the engine is asked anew.
func TestAnswersDisproveLocalPrompts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil    func(*fakes)
		more     string
		position int
	}{
		"counts": {func(f *fakes) { f.wrong.Store(true) }, "", -1},
		"ids":    {func(f *fakes) { f.other.Store(true) }, `,"return_token_ids":true`, 2},
		"stream": {func(f *fakes) { f.other.Store(true) }, `,"return_token_ids":true,"stream":true`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := &fakes{}
			r, seen := newProven(t, local, 1, nil)
			require.Eventually(t, func() bool { return r.explainText("x").Proof == "proven" }, wait, tick)
			c.spoil(local)
			for i := range prompt.DefaultAuditMismatches {
				n := r.observed.outcomeCount()
				require.Equal(t, http.StatusOK, r.post("/v1/completions", textBody("three words "+string(rune('a'+i)), c.more)).status)
				r.observed.nextOutcome(t, n)
			}
			_, wrong := seen.seen()
			require.Len(t, wrong, prompt.DefaultAuditMismatches)
			last := wrong[len(wrong)-1]
			require.True(t, last.Tipped)
			if c.position < 0 {
				require.Equal(t, -1, last.Position)
			} else {
				require.Equal(t, last.Count-1, last.Position)
			}
			require.Equal(t, "tokenize", r.explainText("y").TokenSource)
		})
	}
}

// Without a Prover, what engines say about prompts is compared all the same.
func TestCallersIDsAreAudited(t *testing.T) {
	t.Parallel()
	seen := &reports{}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithHooks(seen)}})
	for _, n := range []int{10, 11, 0} {
		s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: make([]uint32, 10)})
		require.NoError(t, err)
		s.Done(kvsteer.Usage{Uncached: n, Output: 1, Known: true})
	}
	_, wrong := seen.seen()
	require.Len(t, wrong, 1)
	require.Equal(t, []int{10, 11, 1}, []int{wrong[0].Count, wrong[0].Reported, wrong[0].Mismatches})
}

// inventory lists what it is given.
type inventory chan []fleet.Worker

func (c inventory) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	for {
		select {
		case list := <-c:
			if err := set(list); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// What a Prover was told ends with the worker, and with the router.
func TestProofsEndWithTheWorker(t *testing.T) {
	t.Parallel()
	prover := prompt.NewProver(&fakes{}, prompt.ProverOptions{Timeout: wait})
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{prover}})
	list := make(inventory)
	f, err := fleet.New(fleet.Options{Discoverer: list, ProbeTimeout: wait})
	require.NoError(t, err)
	r, err := kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithEncoder(encoder))
	require.NoError(t, err)
	e := fleettest.New(t, fleettest.Config{Name: "w", Model: testModel})
	w := e.Worker() // its models are found out
	passed := func() (ids []string) {
		for _, p := range prover.Status() {
			if p.State == prompt.ProofPassed && p.Model == testModel {
				ids = append(ids, p.Engine)
			}
		}
		return ids
	}
	list <- []fleet.Worker{w}
	require.Eventually(t, func() bool { return len(passed()) == 1 }, wait, tick)
	first := passed()
	w.Epoch = "another"
	list <- []fleet.Worker{w}
	require.Eventually(t, func() bool { now := passed(); return len(now) == 1 && now[0] != first[0] }, wait, tick)
	list <- nil
	require.Eventually(t, func() bool { return len(prover.Status()) == 0 }, wait, tick)
	list <- []fleet.Worker{w}
	require.Eventually(t, func() bool { return len(passed()) == 1 }, wait, tick)
	require.NoError(t, r.Close())
	require.Empty(t, prover.Status())
	require.NoError(t, f.Close())
	require.NoError(t, prover.Close())
	require.NoError(t, encoder.Close())
}
