package fleet_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// TestPressure: others' requests are told from ours, whatever we begin and end
// after the report.
func TestPressure(t *testing.T) {
	cases := []struct {
		name             string
		prefill, decode  int // ours at the time of the report
		running, waiting int // reported
		begin, end       int // ours after it
		otherRun, otherW int
		requests         int
	}{
		{"idle", 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{"only others", 0, 0, 5, 3, 0, 0, 5, 3, 0},
		{"only ours", 2, 3, 3, 2, 0, 0, 0, 0, 5},
		{"both", 1, 1, 5, 3, 0, 0, 4, 2, 2},
		{"ours not arrived yet", 4, 0, 1, 0, 0, 0, 0, 0, 4},
		{"ours begun since", 1, 1, 5, 3, 7, 0, 4, 2, 9},
		{"ours ended since", 1, 1, 5, 3, 0, 2, 4, 2, 0},
		{"ours prefill while running", 3, 0, 4, 0, 0, 0, 1, 0, 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, e := newNetwork(), newEngine("m")
				n.add("a", e)
				f := start(t, fleet.Options{
					Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
				})
				ready(t, f)
				m := f.Snapshot().Member("w")
				var bookings []*fleet.Booking
				for i := range c.prefill + c.decode {
					b := m.Begin(0, fleet.Work{PrefillTokens: 10})
					if i >= c.prefill {
						b.FirstToken()
					}
					bookings = append(bookings, b)
				}
				e.set(func(e *engine) { e.metrics = metricsText(1000, c.running, c.waiting, 0) })
				time.Sleep(1200 * time.Millisecond)
				// The next report must not come before we look.
				e.set(func(e *engine) { e.hang["/metrics"] = true })
				for range c.begin {
					bookings = append(bookings, m.Begin(0, fleet.Work{PrefillTokens: 10}))
				}
				for _, b := range bookings[:c.end] {
					b.End()
				}
				p := m.Pressure(0, time.Now())
				assert.True(t, p.Fresh)
				assert.True(t, p.OthersKnown)
				assert.Equal(t, c.otherRun, p.OtherRunning, "others running")
				assert.Equal(t, c.otherW, p.OtherWaiting, "others waiting")
				assert.Equal(t, c.requests, p.Requests, "ours")
				assert.Equal(t, c.begin, p.BegunSince)
				assert.InDelta(t, 0.25, p.KVUsage, 1e-9)
				for _, b := range bookings {
					b.End()
				}
			})
		})
	}
}

// TestStaleReportCountsForNothing: metrics five minutes old that say idle don't
// outweigh what we have in flight, and don't take the worker out.
func TestStaleReportCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
		})
		ready(t, f)
		m := f.Snapshot().Member("w")
		time.Sleep(time.Second)
		e.set(func(e *engine) { e.hang["/metrics"] = true })
		b := m.Begin(0, fleet.Work{PrefillTokens: 4096})
		time.Sleep(5 * time.Minute)

		p := m.Pressure(0, time.Now())
		assert.False(t, p.Fresh)
		assert.False(t, p.OthersKnown)
		assert.GreaterOrEqual(t, p.Age, 4*time.Minute)
		assert.Equal(t, 4096, p.PrefillTokens)
		assert.Equal(t, []string{"w"}, names(f.Snapshot().ForModel("m")), "still a candidate")
		assert.Same(t, m, f.Snapshot().Member("w"))
		assert.Contains(t, m.Health().Problems[0], "its metrics can't be read")
		b.End()
	})
}

func TestPressurePerRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		e.metrics = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_waiting{engine=\"0\"} 1\n" +
			"vllm:num_requests_running{engine=\"1\"} 8\nvllm:num_requests_waiting{engine=\"1\"} 0\n"
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(
				fleet.Worker{Name: "two", URL: "http://a", DataParallel: 2},
				fleet.Worker{Name: "unsplit", URL: "http://a"},
			), HTTPClient: n.client(),
		})
		ready(t, f)
		time.Sleep(time.Second)
		two, one := f.Snapshot().Member("two"), f.Snapshot().Member("unsplit")
		assert.Equal(t, 3, two.Pressure(0, time.Now()).OtherRunning)
		assert.Equal(t, 8, two.Pressure(1, time.Now()).OtherRunning)
		assert.Equal(t, 11, one.Pressure(0, time.Now()).OtherRunning, "the sum, where ranks aren't chosen")
		assert.Empty(t, two.Health().Problems)
		assert.Contains(t, one.Health().Problems[0], "the engine has 2 data-parallel ranks")
	})
}

// TestPressureOfUnsplitRanks: an engine that reports all its ranks as one must
// not make the first look loaded and the others idle.
func TestPressureOfUnsplitRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		e.metrics = "sglang:num_running_reqs{model_name=\"m\"} 9\nsglang:num_queue_reqs{model_name=\"m\"} 3\n"
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a", DataParallel: 2}), HTTPClient: n.client(),
		})
		ready(t, f)
		m := f.Snapshot().Member("w")
		b := m.Begin(1, fleet.Work{})
		b.FirstToken()
		time.Sleep(1500 * time.Millisecond)
		for rank := range 2 {
			p := m.Pressure(rank, time.Now())
			assert.Equal(t, 4, p.OtherRunning)
			assert.Equal(t, 2, p.OtherWaiting)
			assert.Equal(t, rank, p.Requests)
		}
		b.End()
	})
}

func TestNoMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		e.metrics = ""
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
		})
		ready(t, f)
		time.Sleep(20 * time.Second)
		m := f.Snapshot().Member("w")
		assert.True(t, m.Routable())
		assert.Nil(t, m.Load())
		assert.Equal(t, fleet.Pressure{}, m.Pressure(0, time.Now()))
		assert.LessOrEqual(t, e.count("/metrics"), 3, "not asked for all the time")
	})
}

func TestSleepingEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		n.add("a", e)
		d := &diary{}
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
			OnChange: d.note,
		})
		ready(t, f)
		time.Sleep(time.Second)
		d.take()
		awake := e.metrics
		e.set(func(e *engine) { e.metrics = awake + "vllm:engine_sleep_state{sleep_state=\"discard_all\"} 1\n" })
		time.Sleep(3 * time.Second)
		m := f.Snapshot().Member("w")
		assert.False(t, m.Routable(), "though /health answers 200")
		require.ErrorContains(t, m.Health().Err, "sleeps")
		assert.Contains(t, d.take(), "cache-lost w")
		e.set(func(e *engine) { e.metrics = awake })
		time.Sleep(3 * time.Second)
		assert.True(t, m.Routable())

		e.set(func(e *engine) { e.metrics = awake + "vllm:engine_sleep_state{sleep_state=\"discard_all\"} 1\n" })
		time.Sleep(3 * time.Second)
		assert.False(t, m.Routable())
		e.set(func(e *engine) { e.metrics = "" })
		time.Sleep(15 * time.Second)
		assert.True(t, m.Routable(), "a stale report doesn't keep it out")
		assert.Same(t, m, f.Snapshot().Member("w"))
	})
}

func TestEngineDetection(t *testing.T) {
	cases := []struct {
		name   string
		setup  func(e *engine)
		worker fleet.Worker
		want   fleet.Engine
		block  int
	}{
		{"owner", func(*engine) {}, fleet.Worker{}, fleet.EngineVLLM, 16},
		{"metrics", func(e *engine) { e.models = `{"data":[{"id":"m","owned_by":"acme"}]}` }, fleet.Worker{}, fleet.EngineVLLM, 16},
		{"sglang without metrics", func(e *engine) {
			e.models, e.metrics = `{"data":[{"id":"m","owned_by":"acme"}]}`, ""
			e.answers["/get_server_info"] = `{"model_path":"/m","tokenizer_path":"/m","page_size":64}`
		}, fleet.Worker{}, fleet.EngineSGLang, 64},
		{"tensorrt-llm", func(e *engine) {
			e.models = `{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}`
			e.metrics = "[]"
			e.answers["/prometheus/metrics"] = "trtllm_kv_cache_utilization 0.5\n"
		}, fleet.Worker{}, fleet.EngineTRTLLM, 0},
		{"nothing known", func(e *engine) { e.models, e.metrics = `{"data":[{"id":"m"}]}`, "" }, fleet.Worker{}, fleet.EngineOther, 0},
		{"declared", func(*engine) {}, fleet.Worker{Engine: fleet.EngineSGLang, BlockSize: 8}, fleet.EngineSGLang, 8},
		{"no health endpoint", func(e *engine) { e.health = http.StatusNotFound }, fleet.Worker{}, fleet.EngineVLLM, 16},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, e := newNetwork(), newEngine("m")
				c.setup(e)
				n.add("a", e)
				c.worker.Name, c.worker.URL = "w", "http://a"
				f := start(t, fleet.Options{Discoverer: fleet.Static(c.worker), HTTPClient: n.client()})
				ready(t, f)
				time.Sleep(3 * time.Second)
				m := f.Snapshot().Member("w")
				assert.Equal(t, c.want, m.Engine())
				assert.Equal(t, c.block, m.BlockSize())
				if c.want == fleet.EngineTRTLLM {
					assert.Zero(t, e.count("/metrics"), "reading it would take statistics from others")
					assert.InDelta(t, 0.5, m.Pressure(0, time.Now()).KVUsage, 1e-9)
				}
			})
		})
	}
}
