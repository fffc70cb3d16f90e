package fleet_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func TestValidate(t *testing.T) {
	events := func(addrs ...string) (out []follow.Endpoint) {
		for _, a := range addrs {
			out = append(out, follow.Endpoint{Events: a})
		}
		return out
	}
	cases := []struct {
		name string
		edit func(w *fleet.Worker)
		want string // "" if fine
	}{
		{"plain", func(*fleet.Worker) {}, ""},
		{"https, path", func(w *fleet.Worker) { w.URL = "https://gpu.example:8443/a/b/" }, ""},
		{"IPv6", func(w *fleet.Worker) { w.URL = "http://[fd00::1]:8000" }, ""},
		{"no name", func(w *fleet.Worker) { w.Name = "" }, "name: missing"},
		{"at sign", func(w *fleet.Worker) { w.Name = "a@b" }, "name: contains '@'"},
		{"control character", func(w *fleet.Worker) { w.Name = "a\nb" }, "name: contains a control"},
		{"long name", func(w *fleet.Worker) { w.Name = strings.Repeat("x", 254) }, "name: longer than 253"},
		{"invalid UTF-8", func(w *fleet.Worker) { w.Class = "\xff" }, "class: not valid UTF-8"},
		{"pool", func(w *fleet.Worker) { w.Pool = "a\x00" }, "pool: contains a control"},
		{"no url", func(w *fleet.Worker) { w.URL = "" }, "url: missing"},
		{"no scheme", func(w *fleet.Worker) { w.URL = "10.0.0.7:8000" }, "url: not a URL"},
		{"bare host", func(w *fleet.Worker) { w.URL = "gpu" }, `url: scheme "" is not http`},
		{"no host", func(w *fleet.Worker) { w.URL = "http://:8000" }, "url: has no host"},
		{"any address", func(w *fleet.Worker) { w.URL = "http://0.0.0.0:8000" }, "url: 0.0.0.0 is an address to listen on"},
		{"any IPv6 address", func(w *fleet.Worker) { w.URL = "http://[::]:8000" }, "url: :: is an address to listen on"},
		{"port", func(w *fleet.Worker) { w.URL = "http://a:70000" }, `url: port "70000"`},
		{"query", func(w *fleet.Worker) { w.URL = "http://a?x=1" }, "url: has a query"},
		{"API path", func(w *fleet.Worker) { w.URL = "http://a/v1/" }, "url: ends in /v1"},
		{"role", func(w *fleet.Worker) { w.Role = "both" }, `role: "both" is not known; use prefill or decode`},
		{"engine", func(w *fleet.Worker) { w.Engine = "vLLM" }, `engine: "vLLM" is not known; use vllm,`},
		{"empty model", func(w *fleet.Worker) { w.Models = []string{"a", ""} }, "models[1]: empty"},
		{"model twice", func(w *fleet.Worker) { w.Models = []string{"a", "a"} }, "models[1]: \"a\" is listed twice"},
		{"label", func(w *fleet.Worker) { w.Labels = map[string]string{"a": "\x00"} }, "labels.a: contains a control"},
		{"block size", func(w *fleet.Worker) { w.BlockSize = -1 }, "blockSize: -1 is not between"},
		{"ranks", func(w *fleet.Worker) { w.DataParallel = 5000 }, "dataParallel: 5000 is not between"},
		{"one publisher", func(w *fleet.Worker) { w.Events = events("tcp://a:5557") }, ""},
		{"another scheme", func(w *fleet.Worker) { w.Events = events("inproc://x") }, ""},
		{"polled events", func(w *fleet.Worker) { w.Events = events("http://a:8000") }, ""},
		{"polled events with a path", func(w *fleet.Worker) { w.Events = events("https://a/x/kv_cache_events") }, ""},
		{"polled ranks", func(w *fleet.Worker) { w.DataParallel, w.Events = 2, events("http://a:1", "http://a:1") }, ""},
		{"polled any address", func(w *fleet.Worker) { w.Events = events("http://0.0.0.0:8000") }, "events[0].events: 0.0.0.0 is an address to listen on"},
		{"polled password", func(w *fleet.Worker) { w.Events = events("HTTP://u:p@a") }, "events[0].events: contains a user name"},
		{"polled query", func(w *fleet.Worker) { w.Events = events("http://a?x=1") }, "events[0].events: has a query"},
		{"polled port", func(w *fleet.Worker) { w.Events = events("http://a:0") }, `events[0].events: port "0"`},
		{"polled replay", func(w *fleet.Worker) {
			w.Events = []follow.Endpoint{{Events: "http://a:1", Replay: "tcp://a:1"}}
		}, "events[0].replay: events that are polled over HTTP can't be replayed"},
		{"global rank", func(w *fleet.Worker) { w.Events = []follow.Endpoint{{Events: "tcp://a:5557", Rank: 7}} }, ""},
		{
			"too few publishers", func(w *fleet.Worker) { w.DataParallel, w.Events = 2, events("tcp://a:5557") },
			"events: 1 publishers for 2 data-parallel ranks; list one for each rank, or set dataParallel to 1",
		},
		{"too many", func(w *fleet.Worker) { w.Events = events("tcp://a:1", "tcp://a:2") }, "events: 2 publishers for 1"},
		{"rank twice", func(w *fleet.Worker) {
			w.DataParallel, w.Events = 2, []follow.Endpoint{{Events: "tcp://a:1", Rank: 1}, {Events: "tcp://a:2", Rank: 1}}
		}, "events[1].rank: 1 is given twice"},
		{"bind address", func(w *fleet.Worker) { w.Events = events("tcp://*:5557") }, "events[0].events: * is an address to listen on"},
		{"any address of events", func(w *fleet.Worker) { w.Events = events("tcp://0.0.0.0:5557") }, "events[0].events: 0.0.0.0 is an address to listen on"},
		{"no port", func(w *fleet.Worker) { w.Events = events("tcp://a") }, "events[0].events: has no host and port"},
		{"port 0", func(w *fleet.Worker) { w.Events = events("tcp://a:0") }, "events[0].events: port \"0\""},
		{"no scheme of events", func(w *fleet.Worker) { w.Events = events("a:5557") }, "events[0].events: not scheme://address"},
		{"no events address", func(w *fleet.Worker) { w.Events = events("") }, "events[0].events: missing"},
		{"replay is events", func(w *fleet.Worker) {
			w.Events = []follow.Endpoint{{Events: "tcp://a:1", Replay: "tcp://a:1"}}
		}, "events[0].replay: is the same address"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := fleet.Worker{Name: "w", URL: "http://a:8000"}
			c.edit(&w)
			err := w.Validate()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, fleet.ErrInvalidWorker)
			require.ErrorContains(t, err, c.want)
			_, err = fleet.New(fleet.Options{Discoverer: fleet.Static(w)})
			assert.ErrorContains(t, err, c.want, "New refuses a static list like that")
		})
	}
}

// TestSecretsInURL: an error must not repeat what it complains about.
func TestSecretsInURL(t *testing.T) {
	for _, u := range []string{"http://user:hunter2@a:1", "http://user:hunter2@a:port", "http://user:hunter2@[::"} {
		w := fleet.Worker{Name: "w", URL: u}
		err := w.Validate()
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestErrorsAreBounded(t *testing.T) {
	err := fleet.Validate(make([]fleet.Worker, 1000))
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 5000)
}

func TestListsAreRefusedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newLister(), newLister()
		f := start(t, fleet.Options{
			Discoverers: []fleet.Discoverer{first, second}, HTTPClient: newNetwork().client(), MaxWorkers: 3,
		})
		w := func(names ...string) (out []fleet.Worker) {
			for _, n := range names {
				out = append(out, fleet.Worker{Name: n, URL: "http://a"})
			}
			return out
		}
		require.NoError(t, first.set(w("a", "b")...))
		require.NoError(t, second.set(w("c")...))
		assert.Equal(t, []string{"a", "b", "c"}, names(f.Snapshot().Members()), "the union")

		require.ErrorContains(t, second.set(w("c", "a")...), `worker "a": name: already listed by another Discoverer`)
		require.ErrorIs(t, second.set(w("c", "d")...), fleet.ErrTooManyWorkers)
		require.ErrorIs(t, first.set(w("a", "a")...), fleet.ErrInvalidWorker)
		require.ErrorIs(t, first.set(w("a", "b", "x", "y")...), fleet.ErrTooManyWorkers)
		assert.Equal(t, []string{"a", "b", "c"}, names(f.Snapshot().Members()), "nothing changed")
		require.ErrorContains(t, f.Err(), "the last list stays in force")
		assert.Equal(t, 2, f.Status()[0].Workers)

		require.NoError(t, first.set(w("b")...))
		require.NoError(t, second.set(w("c", "a")...))
		require.NoError(t, f.Err())
		assert.Equal(t, []string{"a", "b", "c"}, names(f.Snapshot().Members()))
	})
}

func TestListIsCopied(t *testing.T) {
	l := newLister()
	f := start(t, fleet.Options{Discoverer: l, HTTPClient: newNetwork().client()})
	w := fleet.Worker{
		Name: "w", URL: "http://a", Models: []string{"m"}, Labels: map[string]string{"k": "v"}, DataParallel: 2,
		Events: []follow.Endpoint{{Events: "tcp://a:1"}, {Events: "tcp://a:2"}},
	}
	require.NoError(t, l.set(w))
	w.Models[0], w.Labels["k"], w.Events[0].Events = "x", "x", "x"
	got := f.Snapshot().Member("w").Worker()
	assert.Equal(t, "m", got.Models[0])
	assert.Equal(t, "v", got.Labels["k"])
	assert.Equal(t, "tcp://a:1", got.Events[0].Events)
	assert.Equal(t, 1, got.Events[1].Rank, "ranks are numbered in order when none is given")
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]fleet.Options{
		"ProbeInterval":    {ProbeInterval: -time.Second},
		"ProbeTimeout":     {ProbeTimeout: -time.Second},
		"StaleAfter":       {StaleAfter: -time.Second},
		"UnhealthyAfter":   {UnhealthyAfter: -1},
		"HealthyAfter":     {HealthyAfter: -1},
		"MaxWorkers":       {MaxWorkers: -1},
		"MaxResponseBytes": {MaxResponseBytes: -1},
		"Discoverers[0]":   {Discoverers: []fleet.Discoverer{nil}},
	} {
		_, err := fleet.New(o)
		require.ErrorContains(t, err, "Options."+name)
	}
	f := start(t, fleet.Options{})
	assert.Empty(t, f.Snapshot().Members(), "a fleet without a Discoverer is empty")
}
