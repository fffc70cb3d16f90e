package follow_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

var (
	traceFile = flag.String("follow.trace", "", "a Mooncake trace, one JSON request a line, for BenchmarkTrace")
	traceRate = flag.Float64("follow.rate", 500_000, "block operations a second that BenchmarkTrace offers")
	traceStep = flag.Int("follow.step", 128, "the most block operations in a message of BenchmarkTrace")
)

// BenchmarkTrace has 64 Followers, each with an engine's stream as it is on the
// wire, keep one index up to date. What the engines publish is made beforehand;
// then every message has a time at which it is due, whether or not those before
// are done, and is published then. It prints
//
//   - offered-ops/s, the rate of the schedule, and achieved-ops/s: all block
//     operations by the time from the first message's due time to the moment at
//     which the last one was visible to Match;
//   - service: a message's time from the beginning of its decoding to the end of
//     its application;
//   - visible: a message's time from when it was due to when it was visible, with
//     the publisher's delay and all waiting in it;
//   - late: how much of that was the publisher's own delay.
//
// Run it with -follow.trace FILE -benchtime 1x.
func BenchmarkTrace(b *testing.B) {
	if *traceFile == "" {
		b.Skip("needs -follow.trace")
	}
	messages, held := traceMessages(b, *traceFile, *traceStep)
	runtime.GC() // of what the making left
	for b.Loop() {
		replayTrace(b, messages, held)
	}
}

// stamp is when a message was due, published, taken up and visible, in ns since
// the start.
type stamp struct{ due, sent, begun, visible atomic.Int64 }

// clocked notes when a worker's messages are taken up and when they are visible,
// which is when the Follower records its place.
type clocked struct {
	*kvcache.Index
	wire.Decoder
	began  time.Time
	taken  int // messages decoded
	next   int // the first that is not visible
	stamps []stamp
	left   *sync.WaitGroup
}

func (c *clocked) Decode(payload []byte) (*kvcache.Batch, error) {
	c.stamps[c.taken].begun.Store(int64(time.Since(c.began)))
	c.taken++
	return c.Decoder.Decode(payload)
}

func (c *clocked) SetPosition(o kvcache.Owner, p kvcache.Position) {
	c.Index.SetPosition(o, p)
	// One message as a rule; several after a doubt, which holds the place back.
	for ; uint64(c.next) <= p.Seq; c.next++ {
		c.stamps[c.next].visible.Store(int64(time.Since(c.began)))
		c.left.Done()
	}
}

func replayTrace(b *testing.B, messages []traceMessage, held int) {
	b.Helper()
	x := kvcache.NewIndex(kvcache.Options{})
	hub := follow.NewHub()
	var left sync.WaitGroup
	left.Add(len(messages))
	workers := make([]*clocked, traceWorkers)
	pipes := make([]*follow.Pipe, traceWorkers)
	owners := make([]kvcache.Owner, traceWorkers)
	followers := make([]*follow.Follower, traceWorkers)
	defer func() {
		for _, f := range followers {
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	for i := range workers {
		owners[i] = x.Join("w")
		workers[i] = &clocked{Index: x, left: &left}
	}
	for _, m := range messages {
		w := workers[m.worker]
		w.stamps = append(w.stamps, stamp{})
	}
	for i, w := range workers {
		var err error
		if pipes[i], err = hub.Open(fmt.Sprint("w", i), follow.PipeOptions{ReplayBatches: 256}); err != nil {
			b.Fatal(err)
		}
		f, err := follow.Start(context.Background(), follow.Config{
			Transport: hub, Endpoint: pipes[i].Endpoint(0), Index: w, Decoder: w,
			ReplayTimeout: time.Minute, // a machine that stands still is not what is measured
			Owner:         func(int) (kvcache.Owner, bool) { return owners[i], true },
		})
		if err != nil {
			b.Fatal(err)
		}
		followers[i] = f
	}
	for i := range owners { // all connected, and proven to be at the start
		for x.Trust(owners[i]) != kvcache.Exact {
			time.Sleep(time.Millisecond)
		}
	}
	began := time.Now().Add(10 * time.Millisecond)
	for _, w := range workers {
		w.began = began
	}
	at := make([]int, traceWorkers)
	ops := 0
	for _, m := range messages {
		s := &workers[m.worker].stamps[at[m.worker]]
		at[m.worker]++
		due := began.Add(time.Duration(float64(ops) / *traceRate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		s.due.Store(int64(due.Sub(began)))
		s.sent.Store(int64(time.Since(began)))
		pipes[m.worker].Publish(m.payload)
		ops += m.ops
	}
	left.Wait()
	reportTrace(b, workers, ops)
	for i := range owners {
		if trust := x.Trust(owners[i]); trust != kvcache.Exact {
			b.Fatalf("worker %d is %v: %+v", i, trust, followers[i].Stats())
		}
	}
	if s := x.Stats(); s.Pairs != held || s.Orphans > 0 || s.Evicted > 0 || s.Ignored != [kvcache.NumReasons]uint64{} {
		b.Fatalf("the engines hold %d blocks, the index: %+v", held, s)
	}
}

func reportTrace(b *testing.B, workers []*clocked, ops int) {
	b.Helper()
	var service, visible, late []int64
	last := int64(0)
	for _, w := range workers {
		for i := range w.stamps {
			s := &w.stamps[i]
			service = append(service, s.visible.Load()-s.begun.Load())
			visible = append(visible, s.visible.Load()-s.due.Load())
			late = append(late, s.sent.Load()-s.due.Load())
			last = max(last, s.visible.Load())
		}
	}
	b.ReportMetric(*traceRate, "offered-ops/s")
	b.ReportMetric(float64(ops)/time.Duration(last).Seconds(), "achieved-ops/s")
	b.ReportMetric(float64(ops)/float64(len(service)), "ops/message")
	for what, all := range map[string][]int64{"service": service, "visible": visible, "late": late} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2]), what+"-p50-ns")
		b.ReportMetric(float64(all[len(all)*99/100]), what+"-p99-ns")
	}
}
