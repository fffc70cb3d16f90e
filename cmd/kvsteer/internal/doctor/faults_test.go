package doctor

import (
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// ill is an engine with something wrong, and what has to be said of it.
type ill struct {
	config func(*fleettest.Config)
	fault  func(*testing.T, *fleettest.Engine)
	worker func(*fleet.Worker)

	check  string
	status Status
	says   string
}

func config(change func(*fleettest.Config)) ill               { return ill{config: change} }
func injected(inject func(*testing.T, *fleettest.Engine)) ill { return ill{fault: inject} }
func described(describe func(w *fleet.Worker)) ill            { return ill{worker: describe} }
func (i ill) as(describe func(*fleet.Worker)) ill {
	i.worker = describe
	return i
}

// must says what has to be found; there must be no other complaint.
func (i ill) must(check string, s Status, says string) ill {
	i.check, i.status, i.says = check, s, says
	return i
}

// warm has the engine compute something.
func warm(t *testing.T, e *fleettest.Engine, seed uint64) {
	t.Helper()
	post(t, e, "/v1/completions", `{"prompt":"`+fleettest.Text(seed, 200)+`","max_tokens":1}`)
}

func post(t *testing.T, e *fleettest.Engine, path, body string) {
	t.Helper()
	resp, err := http.Post(e.URL()+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

const anyPort = "tcp://127.0.0.1:0"

// publisher opens one, which publishes under a topic.
func publisher(rank int, topic string, cfg zmtp.PublisherConfig) (fleettest.Publisher, follow.Endpoint, error) {
	cfg.Events, cfg.Replay = anyPort, anyPort
	p, err := zmtp.NewPublisher(cfg)
	if err != nil {
		return nil, follow.Endpoint{}, err
	}
	at := p.Endpoint()
	at.Rank = rank
	return &sockets{Publisher: p, topic: topic}, at, nil
}

type sockets struct {
	*zmtp.Publisher

	topic string
}

func (s *sockets) Publish(payload []byte) uint64 {
	seq, _ := s.Publisher.Publish(s.topic, payload)
	return seq
}

func withTopic(rank int) (fleettest.Publisher, follow.Endpoint, error) {
	return publisher(rank, "kv@gpu", zmtp.PublisherConfig{ReplayTopic: true})
}

func withHistory(n int) func(int) (fleettest.Publisher, follow.Endpoint, error) {
	return func(rank int) (fleettest.Publisher, follow.Endpoint, error) {
		return publisher(rank, "", zmtp.PublisherConfig{History: n})
	}
}

// withNobody is a publisher that another one than the engine uses, which is nobody.
func withNobody(rank int) (fleettest.Publisher, follow.Endpoint, error) {
	p, at, err := publisher(rank, "", zmtp.PublisherConfig{})
	if err != nil {
		return nil, at, err
	}
	return &mute{p}, at, nil
}

type mute struct{ fleettest.Publisher }

func (*mute) Publish([]byte) uint64 { return 0 }

func (m *mute) Close() error { return m.Publisher.(*sockets).Close() }

func illnesses() map[string]ill {
	return map[string]ill{
		// What can be injected.
		"killed":        injected(func(_ *testing.T, e *fleettest.Engine) { _ = e.Kill() }).must("health", Fault, "connection refused"),
		"refuses":       injected(func(_ *testing.T, e *fleettest.Engine) { _ = e.Refuse(true) }).must("health", Fault, "connection"),
		"unhealthy":     injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().Unhealthy(true) }).must("health", Fault, "status 503"),
		"hangs":         injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().HangAdmin(true) }).must("health", Fault, "no answer in time"),
		"no metrics":    injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().HideMetrics(true) }).must("metrics", Fault, "status 404"),
		"stale metrics": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().FreezeMetrics(true) }).must("probe", Fault, "metrics stand still"),
		"wrong metrics": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().MetricsBlockSize(32) }).must("blocks", Fault, "the engine says 32, but its events have 16"),
		"fails": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().Fail(1, http.StatusInternalServerError, 0) }).
			must("probe", Fault, "the first request fails: status 500"),
		"limited": injected(func(_ *testing.T, e *fleettest.Engine) {
			e.Faults().FailRate(1, http.StatusTooManyRequests, time.Second)
		}).
			must("probe", Fault, "status 429"),
		"hangs before headers": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().Hang(fleettest.HangBeforeHeaders) }).
			must("probe", Fault, "the first request fails: no answer in time"),
		"hangs before tokens": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().Hang(fleettest.HangBeforeFirstToken) }).
			must("probe", Fault, "the answer breaks off: no answer in time"),
		"hangs in the answer": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().Hang(fleettest.HangMidStream) }).
			must("probe", Fault, "the answer breaks off: no answer in time"),
		"dies in the answer": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().DieMidStream(1, 1) }).must("probe", Fault, "the answer breaks off"),
		"no usage":           injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().NoUsage(true) }).must("probe", Fault, "reports no usage"),
		"slow": ill{
			config: func(c *fleettest.Config) { c.Speed = 1 },
			fault:  func(_ *testing.T, e *fleettest.Engine) { e.Faults().Slow(1e6) },
		}.must("probe", Fault, "no answer in time"),
		"events late": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().DelayEvents(1500 * time.Millisecond) }).must("probe", Warning, "after the answer"),
		"a late subscription": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().LoseEvents(1) }).
			must("probe", OK, "as predicted"),
		"some events lost": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().LoseEvents(2) }).must("probe", Fault, "until they were replayed"),
		"all events lost":  injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().LoseEventRate(1) }).must("probe", Fault, "until they were replayed"),

		"other template":  injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().OtherTemplate(40) }).must("probe", Fault, "prompt tokens, but by render there are 87"),
		"other tokenizer": injected(func(_ *testing.T, e *fleettest.Engine) { e.Faults().OtherTokenizer(true) }).must("probe", Fault, "prompt tokens, but by render there are 87"),

		// What may have happened before.
		"a message was never sent": injected(func(t *testing.T, e *fleettest.Engine) {
			t.Helper()
			warm(t, e, 1)
			e.Faults().BurnEvents(1)
			warm(t, e, 2)
			warm(t, e, 3)
		}).must("events", Fault, "messages are missing that the engine can't repeat"),
		"a message was damaged": injected(func(t *testing.T, e *fleettest.Engine) {
			t.Helper()
			e.Faults().CorruptEvents(1)
			warm(t, e, 1)
			warm(t, e, 2)
		}).must("events", Fault, "messages could not be decoded"),
		"history is cut": ill{
			config: func(c *fleettest.Config) { c.ZMQ, c.OpenPublisher = false, withHistory(1) },
			fault: func(t *testing.T, e *fleettest.Engine) {
				t.Helper()
				warm(t, e, 1)
				warm(t, e, 2)
				warm(t, e, 3)
			},
		}.must("events", Warning, "the engine remembers only its latest messages"),
		"asleep": injected(func(t *testing.T, e *fleettest.Engine) {
			t.Helper()
			post(t, e, "/sleep", "")
		}).must("health", Fault, "the engine sleeps"),
		"silent": ill{
			config: func(c *fleettest.Config) { c.ZMQ, c.OpenPublisher = false, withNobody },
			fault: func(t *testing.T, e *fleettest.Engine) {
				t.Helper()
				warm(t, e, 1)
			},
		}.must("events", Fault, "it has published nothing"),

		// How an engine may be started.
		"no caching": config(func(c *fleettest.Config) { c.NoPrefixCache = true }).must("caching", Fault, "prefix caching is off"),
		"no caching, sglang": config(func(c *fleettest.Config) {
			c.NoPrefixCache, c.Dialect, c.Render = true, fleettest.SGLang, false
		}).must("caching", Fault, "prefix caching is off"),
		"no cached tokens":  config(func(c *fleettest.Config) { c.NoCachedTokens = true }).must("probe", Warning, "cached tokens are not reported"),
		"no render":         config(func(c *fleettest.Config) { c.Render = false }).must("tokens", Warning, "no /render; /tokenize serves chat, completions"),
		"no token ids":      config(func(c *fleettest.Config) { c.Render, c.NoTokenize = false, true }).must("tokens", Fault, "neither /render nor /tokenize"),
		"wants a key":       config(func(c *fleettest.Config) { c.APIKey = "k" }).must("models", Fault, "wants a key"),
		"publishes nothing": config(func(c *fleettest.Config) { c.ZMQ = false }).must("events", Warning, "none are configured: routing is approximate"),
		"drafts": config(func(c *fleettest.Config) { c.Speculative = true }).as(func(w *fleet.Worker) { w.Speculative = false }).must("probe", Fault,
			"request 2: 80 tokens were predicted as cached, the engine reports 64"),
		"more ranks": config(func(c *fleettest.Config) { c.Ranks = 2 }).as(func(w *fleet.Worker) { w.DataParallel, w.Events = 0, w.Events[:1] }).
			must("ranks", Fault, "dataParallel is 1, but the engine has 2"),
		"no events, tensorrt-llm": config(func(c *fleettest.Config) {
			c.Dialect, c.ZMQ, c.EventBuffer = fleettest.TensorRTLLM, false, -1
		}).must("events", Warning, "none are configured"),

		// How it may be described.
		"no events listed": described(func(w *fleet.Worker) { w.Events = nil }).must("events", Warning, "though the engine publishes them"),
		"no replay":        described(func(w *fleet.Worker) { w.Events[0].Replay = "" }).must("events", Warning, "no replay address"),
		"wrong events": described(func(w *fleet.Worker) { w.Events[0].Events = "tcp://127.0.0.1:1" }).
			must("events", Fault, "event stream not connected: connection refused"),
		"no publisher there": described(func(w *fleet.Worker) { w.Events[0].Events = strings.Replace(w.URL, "http", "tcp", 1) }).
			must("events", Fault, "handshake failed"),
		"wrong replay": described(func(w *fleet.Worker) { w.Events[0].Replay = "tcp://127.0.0.1:1" }).must("events", Fault, "replay unanswered"),
		"swapped": described(func(w *fleet.Worker) {
			w.Events[0].Events, w.Events[0].Replay = w.Events[0].Replay, w.Events[0].Events
		}).must("events", Fault, ""),
		"wrong topic": described(func(w *fleet.Worker) { w.Events[0].Topic = "other" }).
			must("probe", Fault, "until they were replayed"),
		"wrong topic, replayed": config(func(c *fleettest.Config) {
			c.ZMQ, c.OpenPublisher = false, withTopic
		}).as(func(w *fleet.Worker) { w.Events[0].Topic = "other" }).
			must("events", Fault, `subscribed to topic "other", but the engine publishes under "kv@gpu"`),
		"wrong block size": described(func(w *fleet.Worker) { w.BlockSize = 64 }).must("blocks", Fault, "blockSize is 64, but the engine's is 16"),
		"wrong engine":     described(func(w *fleet.Worker) { w.Engine = fleet.EngineSGLang }).must("engine", Fault, "declared as SGLang, but it says that it is vLLM"),
		"wrong model":      described(func(w *fleet.Worker) { w.Models = []string{"other"} }).must("models", Fault, "serves none of its declared models (other), but fake-model"),
		"a model too many": described(func(w *fleet.Worker) { w.Models = []string{"fake-model", "other"} }).
			must("models", Warning, "does not list some of its declared models (other)"),
		"too many ranks": described(func(w *fleet.Worker) { w.DataParallel, w.Events = 2, nil }).
			must("ranks", Fault, "dataParallel is 2, but the engine has 1"),
		"draining":  described(func(w *fleet.Worker) { w.Draining = true }).must("health", Warning, "draining"),
		"no engine": described(func(w *fleet.Worker) { w.URL = "http://no-such-host.invalid:8000" }).must("health", Fault, "can't be resolved"),
		"not polled": described(func(w *fleet.Worker) { w.Events = []follow.Endpoint{{Events: w.URL}} }).
			must("events", Fault, "an address to fetch events from, which vLLM does not have"),
	}
}

// Each thing that can be wrong is named, and nothing else is.
func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	for name, i := range illnesses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e *fleettest.Engine
			if i.config != nil {
				e = engine(t, i.config)
			} else {
				e = engine(t)
			}
			if i.check == "events" && i.worker != nil && i.status == Fault {
				warm(t, e, 1)
			}
			w := e.Worker()
			if i.worker != nil {
				i.worker(&w)
			}
			if i.fault != nil {
				i.fault(t, e)
			}
			i.confirm(t, oneWorker(t, w))
		})
	}
}

func (i ill) confirm(t *testing.T, r *Report) {
	t.Helper()
	require.Len(t, r.Workers, 1)
	named := 0
	for _, f := range r.Workers[0].Checks {
		complaint := f.Status == Warning || f.Status == Fault
		switch {
		case f.Check == i.check && f.Status == i.status && strings.Contains(f.Summary, i.says):
			named++
			assert.Equal(t, complaint, f.Advice != "", "advice: %q", f.Advice)
		case complaint:
			assert.Fail(t, "something else is named", "%s: %s", f.Check, f.Summary)
		}
	}
	assert.Equal(t, 1, named, "%s must say %q, once", i.check, i.says)
	assert.Equal(t, i.status == Fault, r.Status == Fault, "status of the report")
}

// unseen are faults that can't be seen from outside, see docs/doctor.md.
var unseen = []string{"MuteCleared", "MuteRemoved"}

// Events of other blocks than the engine's have two consequences, and both are named.
func TestFinerEventsAreNamed(t *testing.T) {
	t.Parallel()
	e := engine(t)
	e.Faults().EventBlockSize(4)
	r := oneWorker(t, e.Worker())
	var named []string
	for _, f := range r.Workers[0].Checks {
		if f.Status == Fault {
			named = append(named, f.Check+": "+f.Summary)
		}
	}
	require.Equal(t, []string{
		"probe: its KV events are of other tokens than the prompt has by render",
		"blocks: the engine says 16, but its events have 4",
	}, named)
}

// Every fault that a fake engine can have is among those above.
func TestEveryFaultIsTried(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("faults_test.go")
	require.NoError(t, err)
	all := reflect.TypeFor[*fleettest.Faults]()
	for i := range all.NumMethod() {
		name := all.Method(i).Name
		if name == "Clear" || slices.Contains(unseen, name) {
			continue
		}
		assert.Contains(t, string(source), "Faults()."+name+"(")
	}
}

// One that answers, and takes its time, has a warning.
func TestSlowFirstToken(t *testing.T) {
	t.Parallel()
	for took, complaints := range map[time.Duration]int{slow: 0, slow + time.Second: 1} {
		p := &prober{}
		p.judgeSpeed(&trial{first: took})
		require.Len(t, p.found, complaints)
		for _, f := range p.found {
			assert.Equal(t, Warning, f.Status)
			assert.Contains(t, f.Summary, "the first token took 5s")
			assert.NotEmpty(t, f.Advice)
		}
	}
}
