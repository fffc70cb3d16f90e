package replicatest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

// An exchange on a network that loses one message in ten and delays the others.
func ExampleNewBus() {
	bus := replicatest.NewBus(replicatest.BusOptions{
		Seed: 1, Drop: 0.1,
		Delay: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(10)) * time.Millisecond },
	})
	east, west := bus.Join(), bus.Join()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	publish := func() {
		err := east.Publish(ctx, &replica.Message{Version: replica.Version, Router: "east", Epoch: 7, Seq: 1, Full: true})
		if err != nil {
			fmt.Println(err)
		}
	}
	err := west.Receive(ctx, publish, func(m *replica.Message) {
		fmt.Println(m.Router, m.Seq, "full:", m.Full)
		bus.Cut(true) // the broker goes away
	})
	fmt.Println(err)
	// Output:
	// east 1 full: true
	// replicatest: the connection is cut
}

// The suite in the test of a carrier: here of the Bus itself.
func ExampleRun() {
	_ = func(t *testing.T) { //nolint:thelper // it is a test: func TestExchange(t *testing.T)
		replicatest.Run(t, func(*testing.T) (a, b replica.Exchange, breakIt func()) {
			bus := replicatest.NewBus(replicatest.BusOptions{})
			return bus.Join(), bus.Join(), func() {
				bus.Cut(true)
				bus.Cut(false)
			}
		})
	}
	// Output:
}
