package prompt

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func TestProbesAreWellFormed(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	apis := map[API]int{}
	for _, p := range builtinProbes() {
		o := object(t, p.Body)
		assert.NotEmpty(t, bytesOf(p.API, o).Bytes, p.Name)
		assert.False(t, o.Value("model").Exists(), p.Name)
		assert.False(t, names[p.Name], p.Name)
		assert.NotEmpty(t, p.Name)
		names[p.Name] = true
		apis[p.API]++
	}
	assert.GreaterOrEqual(t, len(names), 30)
	for _, a := range []API{Chat, Completions, Messages, Responses} {
		assert.GreaterOrEqual(t, apis[a], 2, a)
	}
	assert.Zero(t, apis[0])
}

// Requests take the next source until the engine has confirmed the ids.
func TestProofPasses(t *testing.T) {
	t.Parallel()
	e := newToyEngine(renders)
	prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
		t := g.t
		e.hang = make(chan struct{})
		g.unsure(Chat, "no engine to ask")
		g.Join(at("a"), []string{"m", "other", "m"})
		g.refused(errNotProven)
		synctest.Wait()
		g.refused(errNotProven)
		assert.Equal(t, []ProofReport{{Engine: "a@1", Model: "m"}, {Engine: "a@1", Model: "other"}}, g.Status())
		close(e.hang)
		synctest.Wait()
		g.served()
		for _, api := range []API{Completions, Messages, Responses} {
			degraded, err := g.ask(api, "m")
			require.NoError(t, err)
			assert.Empty(t, degraded)
		}
		want := ProofReport{Engine: "a@1", Model: "m", Assets: "v1", State: ProofPassed, Compared: len(builtinProbes()), At: time.Now()}
		assert.Equal(t, []*ProofReport{&want}, g.reported())
		assert.Equal(t, want, g.Status()[0])
		assert.Equal(t, `local token ids of model "m" on a@1: proof passed, `+strconv.Itoa(want.Compared)+` prompts compared`, want.String())
		assert.Equal(t, 1, e.most, "one question at a time")
		g.Join(at("a"), []string{"m", "other"})
		synctest.Wait()
		assert.Equal(t, len(builtinProbes()), e.total(), "joining again asks nothing")
		_, err := g.ask(Chat, "other")
		assert.Equal(t, ErrNotApplicable, err)
	})
}

// One token in one probe is enough, and the report says which.
func TestProofFails(t *testing.T) {
	t.Parallel()
	odd := newToyEngine(func(path string, o jsonscan.Object) (int, string) {
		status, text := renders(path, o)
		if o.Value("tool_choice").Exists() {
			text = strings.Replace(text, "]", ",7]", 1)
		}
		return status, text
	})
	prove(t, ProverOptions{}, fleetOf{"a": newToyEngine(renders), "odd": odd}, func(g *proofRig) {
		t := g.t
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		g.served()
		g.reported()
		odd.hang = make(chan struct{})
		g.Join(at("odd"), []string{"m"})
		synctest.Wait()
		g.served() // an engine that joins does not interrupt
		close(odd.hang)
		synctest.Wait()
		g.refused(errDisproved)
		reports := g.reported()
		require.Len(t, reports, 1)
		r := reports[0]
		assert.Equal(t, ProofFailed, r.State)
		d := r.Difference
		require.NotNil(t, d)
		assert.Equal(t, "chat, tools not chosen", d.Probe)
		assert.Equal(t, Chat, d.API)
		assert.Equal(t, d.LocalCount, d.Position)
		assert.Equal(t, d.LocalCount+1, d.EngineCount)
		assert.Equal(t, TokenAt{End: true}, d.Local)
		assert.Equal(t, TokenAt{ID: 7, Text: "t7"}, d.Engine)
		assert.Equal(t, `local token ids of model "m" on odd@1: proof failed: probe "chat, tools not chosen": token `+
			strconv.Itoa(d.Position)+` is the end here (of `+strconv.Itoa(d.LocalCount)+`), 7 "t7" in the engine (of `+strconv.Itoa(d.EngineCount)+`)`, r.String())

		g.Leave("odd@1")
		g.served()
		g.Leave("a@1")
		g.Leave("a@1")
		g.unsure(Chat, "no engine to ask")
		assert.Empty(t, g.Status())
		assert.Empty(t, g.models, "nothing is remembered of models that nobody serves")
	})
}

// Where the ids differ.
func TestProofShowsTheFirstDifference(t *testing.T) {
	t.Parallel()
	prove(t, ProverOptions{}, fleetOf{"a": newToyEngine(renders)}, func(g *proofRig) {
		t := g.t
		g.local.set("m", "v1", true)
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		d := g.reported()[0].Difference
		require.NotNil(t, d)
		assert.Equal(t, "chat, one message", d.Probe)
		assert.Equal(t, d.LocalCount-1, d.Position)
		assert.Equal(t, d.Local.ID, d.Engine.ID+1)
		assert.Equal(t, "t"+strconv.Itoa(int(d.Local.ID)), d.Local.Text)
	})
}

func TestProofImpossible(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(string, jsonscan.Object) (int, string)
		deny   bool
		reason string
	}{
		"no endpoints":       {bare, false, "endpoint not available"},
		"nothing to compare": {renders, true, "no probe is computed here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newToyEngine(c.answer)
			prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
				t := g.t
				g.local.deny = func(*Request) bool { return c.deny }
				g.Join(at("a"), []string{"m"})
				synctest.Wait()
				g.local.deny = nil
				g.unsure(Chat, c.reason)
				reports := g.reported()
				require.Len(t, reports, 1)
				assert.Equal(t, ProofImpossible, reports[0].State)
				assert.Equal(t, c.reason, reports[0].Reason)
				assert.Equal(t, len(builtinProbes()), reports[0].Skipped)
				asked := e.total()
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.Equal(t, asked, e.total(), "it is not asked again")
			})
		})
	}
}

// An engine that only tokenizes proves what it has a form for.
func TestProofByTokenize(t *testing.T) {
	t.Parallel()
	prove(t, ProverOptions{}, fleetOf{"a": newToyEngine(tokenizes)}, func(g *proofRig) {
		t := g.t
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		g.served()
		g.unsure(Messages, "endpoint has no form for this API")
		r := g.reported()[0]
		assert.Equal(t, ProofPassed, r.State)
		assert.GreaterOrEqual(t, r.Skipped, 5)
		assert.GreaterOrEqual(t, r.Compared, 25)
	})
}

func TestProofStrict(t *testing.T) {
	t.Parallel()
	engines := fleetOf{"bare": newToyEngine(bare), "tok": newToyEngine(tokenizes)}
	prove(t, ProverOptions{Strict: true}, engines, func(g *proofRig) {
		t := g.t
		g.refused("not proven against the engine: no engine to ask")
		g.Join(at("bare"), []string{"m"})
		synctest.Wait()
		g.refused("not proven against the engine: endpoint not available")
		g.Join(at("tok"), []string{"m"})
		synctest.Wait()
		g.served()
		_, err := g.ask(Messages, "m")
		assert.Equal(t, ReasonError("not proven against the engine: endpoint has no form for this API"), err)
	})
}

// An engine that is down is asked ever more rarely. It keeps requests from the
// local source for a moment only, and is proven when it is up.
func TestProofRetries(t *testing.T) {
	t.Parallel()
	e := newToyEngine(down)
	prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
		t := g.t
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		g.refused(errNotProven)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		g.unsure(Chat, "engine unreachable")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Less(t, e.total(), 100)
		assert.Greater(t, e.total(), 50)
		reports := g.reported()
		require.NotEmpty(t, reports)
		assert.Equal(t, ProofImpossible, reports[0].State)
		assert.LessOrEqual(t, len(reports), 3, "the same is not reported again and again")
		e.behave(renders)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		g.served()
		assert.Equal(t, ProofPassed, g.reported()[0].State)
	})
}

// A call that hangs ends with its deadline, and with Leave and Close.
func TestProofDeadline(t *testing.T) {
	t.Parallel()
	hung := newToyEngine(renders)
	prove(t, ProverOptions{Timeout: time.Second}, fleetOf{"a": hung, "b": hung}, func(g *proofRig) {
		t := g.t
		hung.hang = make(chan struct{})
		g.Join(at("a"), []string{"m"})
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "deadline exceeded", g.Status()[0].Reason)
		assert.Equal(t, ProofPending, g.Status()[0].State)
		g.Leave("a@1")
		g.Join(at("b"), []string{"m"})
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, g.Close())
		assert.Zero(t, time.Since(begun))
		g.Join(at("a"), []string{"m"})
		assert.Len(t, g.Status(), 1, "nothing joins what is closed")
	})
}

// New files are proven anew before they serve, old proofs notwithstanding.
func TestProofOfNewAssets(t *testing.T) {
	t.Parallel()
	e := newToyEngine(renders)
	prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
		t := g.t
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		g.served()
		g.local.set("m", "v2", true)
		g.refused(errNotProven) // which has the engine asked
		synctest.Wait()
		g.refused(errDisproved)
		g.local.set("m", "v3", false)
		g.refused(errNotProven)
		synctest.Wait()
		g.served()
		g.local.set("m", "", false)
		_, err := g.ask(Chat, "m")
		assert.Equal(t, ErrNotApplicable, err)
		var states []ProofState
		for _, r := range g.reported() {
			states = append(states, r.State)
		}
		assert.Equal(t, []ProofState{ProofPassed, ProofFailed, ProofPassed}, states)
	})
}

// A model's adapters share its files: an engine is asked once for all of them.
func TestProofOfAdapters(t *testing.T) {
	t.Parallel()
	e := newToyEngine(renders)
	prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
		t := g.t
		models := []string{"m"}
		for i := range 200 {
			name := "adapter-" + strconv.Itoa(i)
			g.local.set(name, "v1", false)
			models = append(models, name)
		}
		g.Join(at("a"), models)
		synctest.Wait()
		assert.Equal(t, len(builtinProbes()), e.total())
		degraded, err := g.ask(Chat, "adapter-7")
		require.NoError(t, err)
		assert.Empty(t, degraded)
		g.Join(at("a"), []string{"m"})
		assert.Len(t, g.Status(), 1)
	})
}

// Many engines are not asked all at once.
func TestProofParallel(t *testing.T) {
	t.Parallel()
	e := newToyEngine(renders)
	engines := fleetOf{}
	for i := range 20 {
		engines["e"+strconv.Itoa(i)] = e
	}
	prove(t, ProverOptions{Parallel: 3}, engines, func(g *proofRig) {
		t := g.t
		e.hang = make(chan struct{})
		for name := range engines {
			g.Join(at(name), []string{"m"})
		}
		synctest.Wait()
		assert.Equal(t, 3, e.total())
		close(e.hang)
		synctest.Wait()
		g.served()
		assert.LessOrEqual(t, e.most, 3)
		assert.Equal(t, 20*len(builtinProbes()), e.total())
	})
}

// The refusal of all probes may pass: the engine may be loading the model.
func TestProofWhenAllIsRefused(t *testing.T) {
	t.Parallel()
	e := newToyEngine(func(string, jsonscan.Object) (int, string) { return http.StatusBadRequest, `{}` })
	prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		g.unsure(Chat, "engine refused the request")
		e.behave(renders)
		time.Sleep(10 * time.Minute) // endpoints that refuse everything are left alone for a while
		synctest.Wait()
		g.served()
	})
}

// A probe of the user's own is compared, too; nonsense is skipped.
func TestProofOwnProbes(t *testing.T) {
	t.Parallel()
	e := newToyEngine(func(path string, o jsonscan.Object) (int, string) {
		if o.Value("prompt").Is("mine") {
			return http.StatusOK, `{"token_ids":[1]}`
		}
		return renders(path, o)
	})
	own := []Probe{{"nonsense", Chat, `{`}, {"api", 99, `{}`}, {"mine", Completions, `{"prompt":"mine"}`}}
	prove(t, ProverOptions{Probes: own}, fleetOf{"a": e}, func(g *proofRig) {
		t := g.t
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		r := g.reported()[0]
		assert.Equal(t, ProofFailed, r.State)
		assert.Equal(t, "mine", r.Difference.Probe)
		assert.Equal(t, 2, r.Skipped)
	})
}
