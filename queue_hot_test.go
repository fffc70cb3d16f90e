package kvsteer_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// Those that come for a prefix that one worker has wait for it, but not when so
// many do that another worker, which is free, would be sooner. Far more wait than
// are looked at in one go.
func TestAHotPrefixDoesNotGatherALine(t *testing.T) {
	l := newLane(t, 2, kvsteer.QueueOptions{})
	hot := l.prompt(4000)
	first := l.now(hot)
	same := func() *kvsteer.Request {
		req := l.prompt(200)
		req.TokenIDs = append(append([]uint32(nil), hot.TokenIDs...), req.TokenIDs...)
		return req
	}
	// Each adds its 200 tokens to the wait for the first worker. The other would have
	// to compute all 4,200, which counts half as much again for what it costs others.
	const most = 40
	var spread *kvsteer.Selection
	n := 0
	for ; n < most; n++ {
		d, err := l.router.Explain(t.Context(), same())
		require.NoError(t, err)
		if d.Candidates[d.Chosen].Name != first.Target().Worker {
			spread = l.now(same())
			break
		}
		l.wait(t.Context(), strconv.Itoa(n), same())
	}
	require.NotNil(t, spread, "%d wait for the worker that has the prefix, the other is free", n)
	require.NotEqual(t, first.Target().Worker, spread.Target().Worker)
	first.Done(kvsteer.Usage{})
	spread.Done(kvsteer.Usage{})
	for range n {
		r := <-l.got
		require.NoError(t, r.err)
		r.sel.Done(kvsteer.Usage{})
	}
	require.Zero(t, l.router.Waiting())
}
