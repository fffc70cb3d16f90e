package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer/fleet"
)

// What others are heard to have sent to the same rank within moments of a request was
// not known when its worker was chosen; what was heard before was, and what comes later
// is behind it.
func TestUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add("a", newEngine("m"))
		f := start(t, fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client()})
		ready(t, f)
		m := f.Snapshot().Member("w")
		const moment = 10 * time.Millisecond
		hear := func(requests, tokens int) {
			m.SetPeers(0, fleet.InFlight{PrefillRequests: requests, PrefillTokens: tokens, PrefillSince: time.Now()})
		}
		hear(1, 1000)
		time.Sleep(time.Millisecond)
		b := m.Begin(0, fleet.Work{PrefillTokens: 100})
		assert.Zero(t, b.Unheard(moment), "that was known")
		time.Sleep(moment / 2)
		hear(2, 1400)
		assert.Equal(t, 400, b.Unheard(moment))
		hear(1, 400)
		time.Sleep(moment / 2)
		hear(3, 1000)
		assert.Equal(t, 1000, b.Unheard(moment), "an end takes nothing back")
		time.Sleep(time.Nanosecond)
		hear(4, 9000)
		assert.Equal(t, 1000, b.Unheard(moment), "that came later")
		later := m.Begin(0, fleet.Work{PrefillTokens: 100})
		time.Sleep(time.Nanosecond)
		for i := range 100 { // more than are remembered
			hear(5+i, 9001+i)
		}
		assert.Equal(t, 32, later.Unheard(moment))
		assert.Zero(t, b.Unheard(moment))
		later.End()
		assert.Equal(t, 32, later.Unheard(moment), "also when it has ended")
		b.End()
	})
}

// A router that waits behind another's prompt may say for long that it is being computed:
// nothing is, before the last that was done.
func TestPeersBeginAfterTheLastPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add("a", newEngine("m"))
		f := start(t, fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client()})
		ready(t, f)
		m := f.Snapshot().Member("w")
		sent := time.Now()
		m.SetPeers(0, fleet.InFlight{PrefillRequests: 2, PrefillSince: sent})
		time.Sleep(time.Second)
		done := time.Now()
		m.SetPeers(0, fleet.InFlight{PrefillRequests: 1, PrefillSince: sent, DecodeRequests: 1})
		assert.Equal(t, done.UnixNano(), m.Peers(0).PrefillSince.UnixNano())
		time.Sleep(time.Second)
		m.SetPeers(0, fleet.InFlight{PrefillRequests: 2, PrefillSince: sent, DecodeRequests: 1})
		assert.Equal(t, done.UnixNano(), m.Peers(0).PrefillSince.UnixNano())
		m.SetPeers(0, fleet.InFlight{PrefillRequests: 2, PrefillSince: time.Now(), DecodeRequests: 1})
		assert.Equal(t, time.Now().UnixNano(), m.Peers(0).PrefillSince.UnixNano())
	})
}
