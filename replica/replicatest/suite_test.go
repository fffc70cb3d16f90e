package replicatest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

func onBus(o replicatest.BusOptions) replicatest.Join {
	return func(*testing.T) (a, b replica.Exchange, breakIt func()) {
		bus := replicatest.NewBus(o)
		return bus.Join(), bus.Join(), func() {
			bus.Cut(true)
			bus.Cut(false)
		}
	}
}

func TestBus(t *testing.T) {
	t.Run("quiet", func(t *testing.T) { replicatest.Run(t, onBus(replicatest.BusOptions{})) })
	t.Run("late and double", func(t *testing.T) {
		replicatest.Run(t, onBus(replicatest.BusOptions{
			Duplicate: 0.3, Delay: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(3)) * time.Millisecond },
		}))
	})
}
