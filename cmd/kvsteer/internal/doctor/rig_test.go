package doctor

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// engine starts a fake engine that has everything that the router wants.
func engine(t *testing.T, change ...func(*fleettest.Config)) *fleettest.Engine {
	t.Helper()
	cfg := fleettest.Config{Name: "gpu-0", Speed: math.Inf(1), ZMQ: true, Render: true}
	for _, c := range change {
		c(&cfg)
	}
	return fleettest.New(t, cfg)
}

func examine(t *testing.T, o Options) *Report {
	t.Helper()
	o.Timeout = 56 * time.Second // and 7 s until events count as missing, however slow the machine is
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, r.WriteText(&b, false))
	t.Logf("\n%s", b.String())
	return r
}

// oneWorker examines one worker, with a request.
func oneWorker(t *testing.T, w fleet.Worker, change ...func(*Options)) *Report {
	t.Helper()
	o := Options{Workers: []fleet.Worker{w}, Probe: true}
	for _, c := range change {
		c(&o)
	}
	return examine(t, o)
}
