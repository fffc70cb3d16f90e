package replicatest_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

// broken names the broken exchange that TestBrokenExchange runs the suite on.
var broken = flag.String("broken", "", "run the suite on this broken exchange; it must fail")

// TestBrokenExchange is run by TestSuiteCatches in a process of its own, since it must
// fail and may hang or leak.
func TestBrokenExchange(t *testing.T) {
	if *broken == "" {
		t.Skip("only run by TestSuiteCatches")
	}
	f := faults()[*broken]
	patience := 10 * time.Second // for what others than the fault must do
	if f.says == vain {
		patience = 1500 * time.Millisecond
	}
	replicatest.RunWithin(t, func(t *testing.T) (a, b replica.Exchange, breakIt func()) {
		t.Helper()
		a, b, breakIt = onBus(replicatest.BusOptions{})(t)
		return &faulty{Exchange: a, fault: f}, &faulty{Exchange: b, fault: f}, breakIt
	}, patience)
}

// vain is in what the suite says when it has waited for as long as its patience.
const vain = "in vain"

// TestSuiteCatches proves that the suite fails on exchanges that break one rule each, and
// that it is the rule's own subtest that fails.
func TestSuiteCatches(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process per fault")
	}
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := os.Executable()
			require.NoError(t, err)
			out, err := exec.CommandContext(t.Context(), path, "-test.run=^TestBrokenExchange$/^"+f.caughtBy+"$", "-test.timeout=4m", "-broken="+name).CombinedOutput()
			require.Error(t, err, "the suite passed an exchange that %s", name)
			require.Contains(t, string(out), "--- FAIL: TestBrokenExchange/"+f.caughtBy)
			if f.says != "" {
				require.Contains(t, string(out), f.says)
			}
		})
	}
}

// TestSuiteCovered: no case of the suite goes unproven.
func TestSuiteCovered(t *testing.T) {
	proven := make(map[string]bool)
	for _, f := range faults() {
		proven[f.caughtBy] = true
	}
	for _, name := range replicatest.Cases() {
		require.True(t, proven[name], name)
	}
}

// faulty is a Bus's end with a fault.
type faulty struct {
	replica.Exchange
	fault fault
}

type fault struct {
	caughtBy string // the subtest
	says     string // in its output
	publish  publishing
	receive  receiving
}

type (
	publishing func(context.Context, replica.Exchange, *replica.Message) error
	receiving  func(context.Context, replica.Exchange, func(), func(*replica.Message)) error
)

func (f *faulty) Publish(ctx context.Context, m *replica.Message) error {
	if f.fault.publish == nil {
		return f.Exchange.Publish(ctx, m)
	}
	return f.fault.publish(ctx, f.Exchange, m)
}

func (f *faulty) Receive(ctx context.Context, subscribed func(), deliver func(*replica.Message)) error {
	if f.fault.receive == nil {
		return f.Exchange.Receive(ctx, subscribed, deliver)
	}
	return f.fault.receive(ctx, f.Exchange, subscribed, deliver)
}

func faults() map[string]fault {
	spoken := make(chan struct{}, 1) // something was published
	return map[string]fault{
		"forgets a field": {"Arrives", "sent ", func(ctx context.Context, e replica.Exchange, m *replica.Message) error {
			c := *m
			c.Loads = append([]replica.Load(nil), m.Loads...)
			for i := range c.Loads {
				c.Loads[i].ContextTokens = 0
			}
			return e.Publish(ctx, &c)
		}, nil},
		"changes what it is given": {"Arrives", "Publish changed", func(ctx context.Context, e replica.Exchange, m *replica.Message) error {
			err := e.Publish(ctx, m)
			m.Router = "changed"
			return err
		}, nil},
		"leaves a goroutine": {"Arrives", "goroutine", nil, func(ctx context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			go func() { select {} }()
			return e.Receive(ctx, s, d)
		}},
		"speaks too early": {"Subscribed", vain, func(ctx context.Context, e replica.Exchange, m *replica.Message) error {
			err := e.Publish(ctx, m)
			select {
			case spoken <- struct{}{}:
			default:
			}
			return err
		}, func(ctx context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			s()
			select {
			case <-spoken:
			case <-ctx.Done():
			}
			return e.Receive(ctx, nil, d)
		}},
		"speaks twice": {"Subscribed", "more than once", nil, func(ctx context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			return e.Receive(ctx, func() { s(); s() }, d)
		}},
		"loses what is big": {"Bounds", vain, func(ctx context.Context, e replica.Exchange, m *replica.Message) error {
			if len(m.Loads) > 1000 {
				return nil
			}
			return e.Publish(ctx, m)
		}, nil},
		"doesn't look at bounds": {"Bounds", "Publish took", func(ctx context.Context, e replica.Exchange, m *replica.Message) error {
			if err := e.Publish(ctx, m); !errors.Is(err, replica.ErrBounds) {
				return err
			}
			return nil
		}, nil},
		"delivers two at a time": {"Concurrent", "while an earlier call", nil, func(ctx context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			return e.Receive(ctx, s, func(m *replica.Message) {
				other := make(chan struct{})
				go func() { defer close(other); d(m) }()
				d(m)
				<-other
			})
		}},
		"doesn't hear its context": {"Context", vain, nil, func(_ context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			return e.Receive(context.Background(), s, d)
		}},
		"doesn't tell the context's error": {"Context", "want the context's error", nil, func(ctx context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			_ = e.Receive(ctx, s, d)
			return nil
		}},
		"publishes all the same": {"EndedBefore", "sent the message", func(_ context.Context, e replica.Exchange, m *replica.Message) error {
			return e.Publish(context.Background(), m)
		}, nil},
		"wants listeners": {"NobodyListens", "nobody", func(context.Context, replica.Exchange, *replica.Message) error {
			return errors.New("nobody listens")
		}, nil},
		"waits for the slow": {"Slow", "because a receiver is slow", func(ctx context.Context, e replica.Exchange, m *replica.Message) error {
			if m.Seq > 10 {
				<-ctx.Done()
			}
			return e.Publish(ctx, m)
		}, nil},
		"leaves deliver alone": {"Stops", "while deliver was running", nil, func(ctx context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			go func() { _ = e.Receive(ctx, s, d) }()
			<-ctx.Done()
			return ctx.Err()
		}},
		"hides that it was cut": {"Break", vain, nil, func(ctx context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			err := e.Receive(ctx, s, d)
			for ctx.Err() == nil {
				err = e.Receive(ctx, nil, d)
			}
			return err
		}},
		"says nothing was wrong": {"Break", "want an error", nil, func(ctx context.Context, e replica.Exchange, s func(), d func(*replica.Message)) error {
			_ = e.Receive(ctx, s, d)
			return ctx.Err()
		}},
	}
}
