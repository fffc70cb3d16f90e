package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer/fleet"
)

// What peers have is in the engine's report as well: it must not count twice, nor be
// taken off what others have once it has grown since the report.
func TestPeersAreNotCountedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		e.metrics = metricsText(1000, 6, 3, 0)
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
		})
		ready(t, f)
		m := f.Snapshot().Member("w")
		own := m.Begin(0, fleet.Work{})
		own.FirstToken()
		m.SetPeers(0, fleet.InFlight{PrefillRequests: 1, DecodeRequests: 2, PrefillTokens: 500, Picks: 9})
		time.Sleep(1200 * time.Millisecond)
		e.set(func(e *engine) { e.hang["/metrics"] = true })
		p := m.Pressure(0, time.Now())
		assert.Equal(t, 1, p.Requests, "own")
		assert.Equal(t, fleet.InFlight{Requests: 3, PrefillRequests: 1, DecodeRequests: 2, PrefillTokens: 500}, p.Peers)
		assert.Equal(t, 3, p.OtherRunning, "of six, one is ours and two are peers'")
		assert.Equal(t, 2, p.OtherWaiting)

		m.SetPeers(0, fleet.InFlight{DecodeRequests: 9})
		p = m.Pressure(0, time.Now())
		assert.Equal(t, 9, p.Peers.Requests)
		assert.Equal(t, 3, p.OtherRunning, "the report is of before")

		m.SetPeers(7, fleet.InFlight{DecodeRequests: 1}) // there is no such rank
		m.SetPeers(0, fleet.InFlight{})
		assert.Zero(t, m.Peers(0))
		assert.Zero(t, m.Pressure(0, time.Now()).Peers)
		own.End()
	})
}

func TestSharedID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add("a", newEngine("m"))
		n.add("b", newEngine("m"))
		options := fleet.Options{
			Discoverer: fleet.Static(
				fleet.Worker{Name: "declared", URL: "http://a", Epoch: "uid-1"}, fleet.Worker{Name: "minted", URL: "http://b"},
			), HTTPClient: n.client(),
		}
		one, other := start(t, options), start(t, options)
		for _, f := range []*fleet.Fleet{one, other} {
			ready(t, f)
			assert.Equal(t, "declared@uid-1", f.Snapshot().Member("declared").SharedID())
			assert.Equal(t, "minted@~http://b", f.Snapshot().Member("minted").SharedID())
		}
	})
}

// A restart that the Discoverer does not tell of is inferred by some routers and not by
// others, and each counts for itself: they must go on calling the worker the same.
func TestSharedIDAfterRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, declared, minted := newNetwork(), newEngine("m"), newEngine("m")
		n.add("a", declared)
		n.add("b", minted)
		options := fleet.Options{
			Discoverer: fleet.Static(
				fleet.Worker{Name: "declared", URL: "http://a", Epoch: "uid-1"}, fleet.Worker{Name: "minted", URL: "http://b"},
			), HTTPClient: n.client(),
		}
		restart := func(at float64) {
			for _, e := range []*engine{declared, minted} {
				e.set(func(e *engine) { e.metrics = metricsText(at, 0, 0, 0) })
			}
			time.Sleep(3 * time.Second)
		}
		shared := func(f *fleet.Fleet) []string {
			return []string{f.Snapshot().Member("declared").SharedID(), f.Snapshot().Member("minted").SharedID()}
		}
		restart(1000)
		watches := start(t, options)
		options.ScrapeInterval = -1
		blind := start(t, options)
		for _, f := range []*fleet.Fleet{watches, blind} {
			ready(t, f)
		}
		time.Sleep(3 * time.Second)
		restart(5000)
		options.ScrapeInterval = 0
		late := start(t, options)
		ready(t, late)
		time.Sleep(3 * time.Second)
		restart(9000)

		id := func(f *fleet.Fleet) string { return f.Snapshot().Member("declared").ID() }
		assert.Equal(t, "declared@uid-1", id(blind), "it does not look")
		assert.NotEqual(t, id(blind), id(watches))
		assert.NotEqual(t, id(watches), id(late), "one has seen two restarts and the other one")
		want := []string{"declared@uid-1", "minted@~http://b"}
		for _, f := range []*fleet.Fleet{watches, blind, late} {
			assert.Equal(t, want, shared(f))
		}
	})
}

// A rank computes prompts one after the other, whosever they are: when one of theirs has
// its first token, the oldest of ours begins, and the other way round.
func TestProgressOverPeersPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add("a", newEngine("m"))
		f := start(t, fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client()})
		ready(t, f)
		m := f.Snapshot().Member("w")
		theirs := time.Now()
		m.SetPeers(0, fleet.InFlight{PrefillRequests: 2, PrefillSince: theirs})
		ours := m.Begin(0, fleet.Work{PrefillTokens: 100})
		time.Sleep(2 * time.Second)
		m.SetPeers(0, fleet.InFlight{PrefillRequests: 1, PrefillSince: theirs, DecodeRequests: 1})
		assert.Equal(t, time.Now().UnixNano(), m.InFlight(0).PrefillSince.UnixNano(), "it begins now")
		time.Sleep(time.Second)
		ours.FirstToken()
		assert.Equal(t, time.Now().UnixNano(), m.Peers(0).PrefillSince.UnixNano(), "and then the last of theirs")
		ours.End()
		m.SetPeers(0, fleet.InFlight{})
		assert.Zero(t, m.InFlight(0).Requests)
	})
}
