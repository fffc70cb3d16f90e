package prompt

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func localEncoding(ids ...uint32) *Encoding {
	return &Encoding{Source: SourceLocal, Tokens: ids, Count: len(ids)}
}

func TestAuditObserve(t *testing.T) {
	t.Parallel()
	batch := localEncoding(1, 2, 3)
	batch.Count = 7
	for name, c := range map[string]struct {
		enc      *Encoding
		count    int
		ids      []uint32
		position int // of the mismatch; -2 for none
	}{
		"equal count":           {localEncoding(1, 2, 3), 3, nil, -2},
		"another count":         {localEncoding(1, 2, 3), 4, nil, -1},
		"no tokens at all":      {localEncoding(1, 2, 3), 0, nil, -1},
		"nothing reported":      {localEncoding(1, 2, 3), -1, nil, -2},
		"equal ids":             {localEncoding(1, 2, 3), 3, []uint32{1, 2, 3}, -2},
		"equal ids, no count":   {localEncoding(1, 2, 3), -1, []uint32{1, 2, 3}, -2},
		"one differs":           {localEncoding(1, 2, 3), 3, []uint32{1, 7, 3}, 1},
		"one more":              {localEncoding(1, 2, 3), 4, []uint32{1, 2, 3, 4}, 3},
		"one less":              {localEncoding(1, 2, 3), 2, []uint32{1, 2}, 2},
		"none":                  {localEncoding(1, 2, 3), 0, []uint32{}, 0},
		"ids say more":          {localEncoding(1, 2, 3), 5, []uint32{1, 2, 3}, -2},
		"several prompts":       {batch, 9, nil, -2},
		"an estimate":           {&Encoding{Source: SourceBytes, Bytes: []byte("x"), Count: 1}, 9, nil, -2},
		"no prompt":             {&Encoding{}, 9, nil, -2},
		"nothing":               {nil, 9, nil, -2},
		"of the engine's makes": {&Encoding{Source: SourceRender, Tokens: []uint32{1}, Count: 1}, 2, nil, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := NewAuditor(AuditOptions{}).Observe(&Observation{Engine: "e", Model: "m", Encoding: c.enc, PromptTokens: c.count, PromptIDs: c.ids})
			if c.position == -2 {
				assert.Nil(t, m)
				return
			}
			require.NotNil(t, m)
			reported := c.count
			if c.ids != nil {
				reported = len(c.ids)
			}
			assert.Equal(t, &Mismatch{
				Engine: "e", Model: "m", Source: c.enc.Source, Count: c.enc.Count, Reported: reported, Position: c.position, Mismatches: 1, Requests: 1,
			}, m)
		})
	}
}

// The window slides: held against a list of all requests.
func TestAuditWindow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		o := AuditOptions{Window: 1 + r.IntN(MaxAuditWindow+20), Mismatches: 1 + r.IntN(6)}
		a := NewAuditor(o)
		window := min(o.Window, MaxAuditWindow)
		limit := min(o.Mismatches, window)
		var all []bool
		for range 400 {
			wrong := r.IntN(20) == 0
			all = append(all, wrong)
			all = all[max(0, len(all)-window):]
			n := 0
			for _, w := range all {
				if w {
					n++
				}
			}
			count := 1
			if wrong {
				count = 2
			}
			m := a.Observe(&Observation{Engine: "e", Model: "m", Encoding: localEncoding(1), PromptTokens: count})
			require.Equal(t, wrong, m != nil)
			if !wrong {
				continue
			}
			require.Equal(t, n, m.Mismatches)
			require.Equal(t, len(all), m.Requests)
			require.Equal(t, n >= limit, m.Tipped)
			if m.Tipped {
				all = nil
			}
		}
	}
}

// Engines, models, files and sources are counted each for itself, and not without
// bound.
func TestAuditKeepsApart(t *testing.T) {
	t.Parallel()
	a := NewAuditor(AuditOptions{Mismatches: 2})
	observe := func(engine, model string, source SourceKind, count int) *Mismatch {
		enc := localEncoding(1)
		enc.Source = source
		return a.Observe(&Observation{Engine: engine, Model: model, Encoding: enc, PromptTokens: count})
	}
	for _, engine := range []string{"a", "b"} {
		for _, model := range []string{"m", "n"} {
			for _, source := range []SourceKind{SourceLocal, SourceRender} {
				assert.False(t, observe(engine, model, source, 2).Tipped)
			}
		}
	}
	other := localEncoding(1)
	other.Assets = "v2"
	assert.False(t, a.Observe(&Observation{Engine: "a", Model: "m", Encoding: other, PromptTokens: 2}).Tipped)
	a.Forget("a")
	assert.False(t, observe("a", "m", SourceLocal, 2).Tipped)
	assert.True(t, observe("b", "m", SourceLocal, 2).Tipped)
	assert.True(t, observe("a", "m", SourceLocal, 2).Tipped)
	for i := range 2 * maxAudits {
		assert.NotNil(t, observe(strconv.Itoa(i), "m", SourceLocal, 2))
		assert.Nil(t, observe("right"+strconv.Itoa(i), "m", SourceLocal, 1))
	}
	assert.Len(t, a.audits, maxAudits)
}

// Requests disprove what probes did not find: the local source rests, the engine
// is asked anew, and if that finds nothing it serves again after a while, which
// is longer each time.
func TestAuditDisproves(t *testing.T) {
	t.Parallel()
	e := newToyEngine(renders)
	prove(t, ProverOptions{}, fleetOf{"a": e, "b": newToyEngine(renders)}, func(g *proofRig) {
		t := g.t
		g.Join(at("a"), []string{"m"})
		g.Join(at("b"), []string{"m"})
		synctest.Wait()
		g.reported()
		probes := len(builtinProbes())
		wrong := func(engine string) *Mismatch {
			return g.Observe(&Observation{Engine: engine, Model: "m", Encoding: localEncoding(1, 2), PromptTokens: 3})
		}
		for hold := firstHold; hold <= 2*maxHold; hold = min(2*hold, 4*maxHold) {
			for range DefaultAuditMismatches - 1 {
				assert.False(t, wrong("a@1").Tipped)
				g.served()
			}
			asked := e.total()
			m := wrong("a@1")
			assert.True(t, m.Tipped)
			g.refused(errDisproved)
			synctest.Wait()
			g.refused(errDisproved)
			assert.Equal(t, asked+probes, e.total(), "it was asked anew")
			reports := g.reported()
			require.Len(t, reports, 2)
			assert.Equal(t, ProofReport{
				Engine: "a@1", Model: "m", Assets: "v1", State: ProofFailed, Mismatch: m, Reason: string(errDisproved), At: time.Now(),
			}, *reports[0])
			assert.Equal(t, `local token ids of model "m" on a@1: proof failed: a prompt of 2 tokens by source local had 3 in the engine (3 of the last 3 requests)`,
				reports[0].String())
			assert.Equal(t, ProofPassed, reports[1].State)
			for range 2 * DefaultAuditMismatches {
				wrong("a@1") // of requests that were on their way
			}
			assert.Empty(t, g.reported())
			time.Sleep(min(hold, maxHold) - time.Second)
			g.refused(errDisproved)
			time.Sleep(time.Second)
			g.served()
			g.audit.Forget("a@1")
		}
		g.local.set("m", "v2", false)
		g.refused(errNotProven)
		synctest.Wait()
		g.served()
	})
}

// What can't disprove anything doesn't.
func TestAuditOfOthers(t *testing.T) {
	t.Parallel()
	prove(t, ProverOptions{Audit: AuditOptions{Mismatches: 1}}, fleetOf{"a": newToyEngine(renders)}, func(g *proofRig) {
		t := g.t
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		g.reported()
		render := &Encoding{Source: SourceRender, Tokens: []uint32{1}, Count: 1}
		for _, o := range []Observation{
			{Engine: "a@1", Model: "m", Encoding: render, PromptTokens: 2},
			{Engine: "gone@1", Model: "m", Encoding: localEncoding(1), PromptTokens: 2},
			{Engine: "a@1", Model: "unknown", Encoding: localEncoding(1), PromptTokens: 2},
		} {
			m := g.Observe(&o)
			require.NotNil(t, m)
			assert.True(t, m.Tipped)
		}
		assert.Nil(t, g.Observe(&Observation{Engine: "a@1", Model: "m", Encoding: localEncoding(1), PromptTokens: 1}))
		g.served()
		assert.Empty(t, g.reported())

		old := localEncoding(1)
		old.Assets = "v0"
		assert.Nil(t, g.Observe(&Observation{Engine: "a@1", Model: "m", Encoding: old, PromptTokens: 2}), "of files that are gone")
		g.served()

		// If the fresh proof fails, the hold does not end it.
		g.local.set("m", "v1", true)
		require.True(t, g.Observe(&Observation{Engine: "a@1", Model: "m", Encoding: localEncoding(1), PromptIDs: []uint32{2}}).Tipped)
		synctest.Wait()
		reports := g.reported()
		require.Len(t, reports, 2)
		assert.NotNil(t, reports[0].Mismatch)
		assert.NotNil(t, reports[1].Difference)
		time.Sleep(2 * maxHold)
		g.refused(errDisproved)
		g.local.set("m", "v1", false)
		g.Leave("a@1")
		g.unsure(Chat, "no engine to ask")
	})
}

// A report of a request says nothing about its text.
func TestAuditHoldsNoPrompt(t *testing.T) {
	t.Parallel()
	m := NewAuditor(AuditOptions{}).Observe(&Observation{
		Engine: "e", Model: "m", Encoding: localEncoding(1, 424242), PromptTokens: 2, PromptIDs: []uint32{1, 535353},
	})
	assert.Equal(t, "a prompt of 2 tokens by source local had 2 in the engine, the first difference at token 1 (1 of the last 1 requests)", m.String())
}

func TestAuditAllocatesNothing(t *testing.T) {
	a := NewAuditor(AuditOptions{})
	o := &Observation{Engine: "e", Model: "m", Encoding: localEncoding(1, 2), PromptTokens: 2, PromptIDs: []uint32{1, 2}}
	assert.Zero(t, testing.AllocsPerRun(100, func() { a.Observe(o) }))
}
