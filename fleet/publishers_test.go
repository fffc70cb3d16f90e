package fleet_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// What one publisher says is about one worker's cache. Two workers that are given
// the same address would both seem to hold what one of them holds.
func TestPublishersAreNotShared(t *testing.T) {
	type eps = []follow.Endpoint
	at := func(addresses ...string) (out eps) {
		for _, a := range addresses {
			out = append(out, follow.Endpoint{Events: a})
		}
		return out
	}
	for _, c := range []struct {
		name string
		a, b eps
		want string // "" if fine
	}{
		{"none", nil, nil, ""},
		{"different ports", at("tcp://h:1"), at("tcp://h:2"), ""},
		{"missing", at(""), at(""), "missing"},
		{"same", at("tcp://h:1"), at("tcp://h:1"), `worker "b": events[0].events: also events[0] of worker "a"`},
		{"same in process", at("inproc://x"), at("inproc://x"), `worker "b": events[0].events: also events[0] of worker "a"`},
		{"names in process", at("inproc://x"), at("inproc://X"), ""},
		{"another rank's", at("tcp://h:1", "tcp://h:2"), at("tcp://h:3", "tcp://h:2"), `worker "b": events[1].events: also events[1] of worker "a"`},
		{"case", at("tcp://Host:1"), at("TCP://host:1"), `also events[0] of worker "a"`},
		{"polled", at("http://h:1"), at("http://H:1/"), `also events[0] of worker "a"`},
		{"polled with a path", at("http://h:1"), at("http://h:1/kv_cache_events"), `also events[0] of worker "a"`},
		{"polled elsewhere", at("http://h:1/a"), at("http://h:1/b"), ""},
		{"two ranks", at("tcp://h:1", "tcp://h:1"), nil, `worker "a": events[1].events: also events[0] of the same worker`},
		{"two polled ranks", at("http://h:1", "http://h:1"), nil, ""},
		// A relay passes on what several engines publish, each under a topic.
		{"topics", eps{{Events: "tcp://h:1", Topic: "kv@a"}}, eps{{Events: "tcp://h:1", Topic: "kv@b"}}, ""},
		{"overlapping topics", eps{{Events: "tcp://h:1", Topic: "kv@"}}, eps{{Events: "tcp://h:1", Topic: "kv@b"}}, `also events[0] of worker "a"`},
		{"topics of polls", eps{{Events: "http://h:1", Topic: "a"}}, eps{{Events: "http://h:1", Topic: "b"}}, `also events[0] of worker "a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := fleet.Validate([]fleet.Worker{
				{Name: "a", URL: "http://h:8000", DataParallel: len(c.a), Events: c.a},
				{Name: "b", URL: "http://h:8001", DataParallel: len(c.b), Events: c.b},
			})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, fleet.ErrInvalidWorker)
			require.ErrorContains(t, err, c.want)
		})
	}
	w := fleet.Worker{Name: "w", URL: "http://h", DataParallel: 2, Events: at("tcp://h:1", "tcp://h:1")}
	require.ErrorContains(t, w.Validate(), "events[1].events: also events[0] of the same worker")
}

// The same over several Discoverers.
func TestPublishersAreNotSharedByDiscoverers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newLister(), newLister()
		f := start(t, fleet.Options{Discoverers: []fleet.Discoverer{first, second}, HTTPClient: newNetwork().client()})
		w := func(name, events string) fleet.Worker {
			return fleet.Worker{Name: name, URL: "http://a", Events: []follow.Endpoint{{Events: events}}}
		}
		require.NoError(t, first.set(w("a", "inproc://x")))
		require.ErrorContains(t, second.set(w("b", "inproc://x")),
			`worker "b": events[0].events: also events[0] of worker "a"`)
		assert.Equal(t, []string{"a"}, names(f.Snapshot().Members()))
		require.NoError(t, second.set(w("b", "inproc://y")))
		require.NoError(t, first.set(w("a", "inproc://z")), "its own old address is no obstacle")
		require.NoError(t, second.set(w("b", "inproc://x")))
	})
}
