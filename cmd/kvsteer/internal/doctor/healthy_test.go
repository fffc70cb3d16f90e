package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// Nothing is said against engines with which nothing is wrong.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fleettest.Config){
		"vllm":           func(*fleettest.Config) {},
		"vllm, adapters": func(c *fleettest.Config) { c.Adapters = []fleettest.Adapter{{Name: "lora"}} },
		"vllm, ranks":    func(c *fleettest.Config) { c.Ranks = 2 },
		"vllm, 0.9": func(c *fleettest.Config) {
			c.Events = fleettest.EventsVLLMArray6
		},
		"sglang": func(c *fleettest.Config) { c.Dialect, c.Render = fleettest.SGLang, false },
		"sglang, ranks": func(c *fleettest.Config) {
			c.Dialect, c.Render, c.Ranks = fleettest.SGLang, false, 2
		},
		"tensorrt-llm": func(c *fleettest.Config) { c.Dialect, c.ZMQ = fleettest.TensorRTLLM, false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := engine(t, change).Worker()
			for _, probe := range []bool{false, true} {
				r := oneWorker(t, w, func(o *Options) { o.Probe = probe })
				assert.Equal(t, OK, r.Status)
				assert.Zero(t, r.Counts.Warning+r.Counts.Fault)
				if probe && len(w.Events) > 0 && w.Engine != fleet.EngineTRTLLM {
					assert.LessOrEqual(t, r.Counts.Skipped, 2)
				}
			}
		})
	}
}
