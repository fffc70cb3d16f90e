package kvsteer_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// The outcome names who served, wherever a proxy went.
func TestOutcomesNameWhoServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3})
	end := func(move func(sel *kvsteer.Selection) string) *kvsteer.Outcome {
		sel, err := r.router.Select(t.Context(), chatRequest("one two three four", false))
		require.NoError(t, err)
		if to := move(sel); to != "" {
			sel.Moved(to)
		}
		sel.Done(kvsteer.Usage{})
		return r.observed.outcome(sel.Decision().ID)
	}
	o := end(func(*kvsteer.Selection) string { return "" })
	require.False(t, o.Moved)
	require.Equal(t, o.Decision.Winner().Instance, o.Served.Instance)

	o = end(func(sel *kvsteer.Selection) string { return sel.Target().URL.Host })
	require.False(t, o.Moved, "it went where it should")

	var to kvsteer.Target
	o = end(func(sel *kvsteer.Selection) string {
		to = sel.Alternatives()[0]
		return to.URL.Host
	})
	require.True(t, o.Moved)
	require.Equal(t, []any{to.Worker, to.Instance, to.Rank}, []any{o.Served.Worker, o.Served.Instance, o.Served.Rank})
	require.NotEqual(t, o.Decision.Winner().Instance, o.Served.Instance)

	o = end(func(*kvsteer.Selection) string { return "192.0.2.1:80" })
	require.True(t, o.Moved)
	require.Empty(t, o.Served.Worker, "nobody knows")
	require.Error(t, o.Err)

	o = end(func(sel *kvsteer.Selection) string {
		require.NoError(t, sel.Next(t.Context(), nil))
		return ""
	})
	require.False(t, o.Moved)
	require.Equal(t, 2, o.Decision.Attempt)
	require.Equal(t, o.Decision.Winner().Name, o.Served.Worker)
	r.idle()
}

// What nobody sees the first token of does not weigh on its worker as a prefill for as
// long as it is answered.
func TestPrefillsThatNobodySeesEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream bool
		drive  func(r *rig, sel *kvsteer.Selection)
		ends   bool
	}{
		"a stream":        {true, func(*rig, *kvsteer.Selection) {}, false},
		"no stream":       {false, func(*rig, *kvsteer.Selection) {}, true},
		"moved":           {false, func(_ *rig, sel *kvsteer.Selection) { sel.Moved(sel.Alternatives()[0].URL.Host) }, true},
		"a stream, moved": {true, func(_ *rig, sel *kvsteer.Selection) { sel.Moved(sel.Alternatives()[0].URL.Host) }, false},
		"unseen":          {true, func(_ *rig, sel *kvsteer.Selection) { sel.Unseen(); sel.Unseen() }, true},
		"unseen, then moved": {true, func(_ *rig, sel *kvsteer.Selection) {
			sel.Unseen()
			sel.Moved(sel.Alternatives()[0].URL.Host)
		}, true},
		"unseen, then tried again": {true, func(r *rig, sel *kvsteer.Selection) {
			sel.Unseen()
			require.NoError(r.t, sel.Next(r.t.Context(), nil))
		}, true},
		"compressed": {true, func(_ *rig, sel *kvsteer.Selection) {
			sel.Answer(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{engines: 2})
			sel, err := r.router.Select(t.Context(), chatRequest(fleettest.Text(1, 100), c.stream))
			require.NoError(t, err)
			c.drive(r, sel)
			at := r.fleet.Snapshot().Member(sel.Target().Worker)
			if c.ends {
				require.Eventually(t, func() bool { return at.InFlight(0).PrefillRequests == 0 }, wait, tick)
			}
			f := at.InFlight(0)
			require.Equal(t, 1, f.Requests)
			require.Equal(t, c.ends, f.DecodeRequests == 1)
			require.Equal(t, c.ends, f.PrefillTokens == 0)
			sel.Done(kvsteer.Usage{})
			sel.Unseen()
			r.idle()
		})
	}
}
