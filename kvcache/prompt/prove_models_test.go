package prompt

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// states returns how the proofs stand by model.
func (g *proofRig) states() map[string]ProofState {
	states := map[string]ProofState{}
	for _, r := range g.Status() {
		states[r.Model] = r.State
	}
	return states
}

// Models with other files are proven each for itself, and one that the engine does
// not take holds up no other, those that come later included.
func TestProofOfSeveralModels(t *testing.T) {
	t.Parallel()
	e := newToyEngine(func(path string, o jsonscan.Object) (int, string) {
		switch {
		case o.Value("model").Is("absent"):
			return http.StatusBadRequest, `{}`
		case o.Value("model").Is("odd"):
			return http.StatusOK, `{"token_ids":[1],"tokens":[1]}`
		default:
			return renders(path, o)
		}
	})
	prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
		t := g.t
		for _, m := range []string{"absent", "odd", "late"} {
			g.local.set(m, "files of "+m, false)
		}
		g.Join(at("a"), []string{"absent", "m", "odd"})
		synctest.Wait()
		assert.Equal(t, map[string]ProofState{"absent": ProofImpossible, "m": ProofPassed, "odd": ProofFailed}, g.states())
		time.Sleep(time.Hour)
		g.Join(at("a"), []string{"absent", "late", "m"})
		synctest.Wait()
		assert.Equal(t, map[string]ProofState{"absent": ProofImpossible, "late": ProofPassed, "m": ProofPassed}, g.states())
		assert.Len(t, g.engines["a@1"].proofs, 3)
		g.served()
	})
}

// An engine that is down is not asked about each of its models, and all of them
// are served without proof after a while.
func TestProofOfManyModelsWhenDown(t *testing.T) {
	t.Parallel()
	e := newToyEngine(down)
	prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
		t := g.t
		models := []string{"m"}
		for i := range 50 {
			name := "n" + strconv.Itoa(i)
			g.local.set(name, "files of "+name, false)
			models = append(models, name)
		}
		g.Join(at("a"), models)
		synctest.Wait()
		g.refused(errNotProven)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.LessOrEqual(t, e.total(), 5)
		g.unsure(Chat, "engine unreachable")
		for m, s := range g.states() {
			assert.Equal(t, ProofImpossible, s, m)
		}
		e.behave(renders)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for m, s := range g.states() {
			assert.Equal(t, ProofPassed, s, m)
		}
	})
}

// An instance that leaves takes all that is known about it along.
func TestProofForgetsWhoLeft(t *testing.T) {
	t.Parallel()
	e := newToyEngine(renders)
	prove(t, ProverOptions{}, fleetOf{"a": e}, func(g *proofRig) {
		t := g.t
		e.hang = make(chan struct{})
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		assert.Equal(t, 1, e.now)
		g.Leave("a@1")
		synctest.Wait()
		assert.Zero(t, e.now, "its calls end with it")
		assert.Empty(t, g.reported())
		e.hang = nil
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		g.served()
		wrong := Observation{Engine: "a@1", Model: "m", Encoding: localEncoding(1), PromptTokens: 2}
		for range DefaultAuditMismatches - 1 {
			require.False(t, g.Observe(&wrong).Tipped)
		}
		g.Leave("a@1")
		g.Join(at("a"), []string{"m"})
		synctest.Wait()
		assert.False(t, g.Observe(&wrong).Tipped)
		g.served()
		g.Join(at("a"), nil)
		g.unsure(Chat, "no engine to ask")
		assert.Empty(t, g.engines["a@1"].proofs)
	})
}

// A proof during which the files change counts for nothing.
func TestProofIsOfOneSetOfFiles(t *testing.T) {
	t.Parallel()
	prove(t, ProverOptions{}, fleetOf{"a": newToyEngine(renders)}, func(g *proofRig) {
		t := g.t
		swapped := &swapping{toyLocal: g.local, by: "v2"}
		p := NewProver(swapped, g.opts)
		defer func() { require.NoError(t, p.Close()) }()
		p.Join(at("a"), []string{"m"})
		synctest.Wait()
		assert.Equal(t, ProofPending, p.Status()[0].State)
		swapped.swap("v1")
		time.Sleep(2 * firstRetry)
		synctest.Wait()
		assert.Equal(t, ProofPassed, p.Status()[0].State)
	})
}
