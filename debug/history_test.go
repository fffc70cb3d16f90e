package debug_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/debug"
)

// counting is a predictor that counts how often it is asked, which each look does.
type counting struct {
	kvsteer.Predictor

	asked atomic.Int64
}

func (p *counting) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	p.asked.Add(1)
	p.Predictor.Predict(in, out)
}

// However many ask for the state, there is one look in an interval, and all are given the same.
func TestManyViewersOneLook(t *testing.T) {
	p := &counting{Predictor: kvsteer.NewPredictor(kvsteer.PredictorOptions{})}
	r := newRig(t, rigConfig{more: []kvsteer.Option{kvsteer.WithPredictor(p)}, options: debug.Options{Interval: time.Hour}})
	r.get("/state.json")
	one := p.asked.Load()
	require.Positive(t, one)
	var wg sync.WaitGroup
	bodies := make([]string, 50)
	for i := range bodies {
		wg.Go(func() { _, _, bodies[i] = r.get("/state.json") })
	}
	wg.Wait()
	require.Equal(t, one, p.asked.Load())
	for _, b := range bodies {
		require.Equal(t, bodies[0], b)
	}
}

// A page that was only just opened has a past, in moments of ten seconds.
func TestTheLastMinutesAreKept(t *testing.T) {
	var now atomic.Int64 // seconds; hooks read it from goroutines of their own
	now.Store(1_000_000_000)
	r := newRig(t, rigConfig{options: debug.Options{Interval: 100 * time.Millisecond}})
	r.seen.SetClock(func() time.Time { return time.Unix(now.Load(), 0) })
	history := func() (list []struct {
		At, Decisions, Rejections, Timed int64
		TTFT                             float64 `json:"timedTtftMs"`
		Predicted                        float64 `json:"timedPredictedMs"`
	},
	) {
		t.Helper()
		time.Sleep(110 * time.Millisecond) // the state may be an interval old
		_, _, body := r.get("/state.json")
		var s struct{ History json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(body), &s))
		require.NoError(t, json.Unmarshal(s.History, &list))
		return list
	}
	require.Empty(t, history())
	require.Equal(t, http.StatusOK, r.ask("one"))
	require.Equal(t, http.StatusOK, r.ask("two"))
	require.Eventually(t, func() bool { return r.state().Sums.Done == 2 }, patience, 20*time.Millisecond)
	now.Add(25)
	r.seen.OnRefusal(&kvsteer.Refusal{Err: &kvsteer.Error{Code: kvsteer.CodeSaturated}})
	list := history()
	require.Len(t, list, 2, "nothing happened between them")
	require.Equal(t, int64(1_000_000_000_000), list[0].At)
	require.EqualValues(t, 2, list[0].Decisions)
	require.Equal(t, int64(1_000_000_020_000), list[1].At)
	require.EqualValues(t, 1, list[1].Rejections)
	require.Zero(t, list[1].Decisions)

	now.Add(285) // the first is out, and its place is taken
	r.seen.OnRefusal(&kvsteer.Refusal{Err: &kvsteer.Error{Code: kvsteer.CodeSaturated}})
	list = history()
	require.Len(t, list, 2, "%v", list)
	require.Equal(t, int64(1_000_000_020_000), list[0].At)
	require.Equal(t, int64(1_000_000_310_000), list[1].At)
}
