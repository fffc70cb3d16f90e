package fleettest

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/kvsteer/kvsteer/internal/sim"
)

// job is one sequence to generate.
type job struct {
	identity
	req    sim.Request
	rank   *rank
	pieces []string // text of each output token
	// ready counts the tokens generated so far; notify is signalled after it grew.
	ready  atomic.Int32
	notify chan struct{}
}

// rank is one data-parallel rank: a simulated engine and the goroutine that lets
// its time pass.
type rank struct {
	id      int
	speed   float64
	seed    uint64
	faults  *Faults
	encoder encoder
	outbox  *outbox        // nil: no events
	eager   bool           // publishes without a step, as SGLang does
	trtllm  *trtllmEncoder // takes encoder's place if set

	wake chan struct{}
	mu   sync.Mutex // guards sim
	sim  *sim.Engine
}

// submit queues a job.
func (r *rank) submit(j *job) error {
	j.rank = r
	j.req.Tag = j
	r.mu.Lock()
	err := r.sim.Submit(&j.req)
	r.mu.Unlock()
	if err != nil {
		return err //nolint:wrapcheck // the handler words it
	}
	signal(r.wake)
	return nil
}

// cancel ends a job that nobody waits for any more. It does nothing to one that
// has finished.
func (r *rank) cancel(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sim.Cancel(&j.req)
}

// reset clears the prefix cache, if no request uses it. A vLLM that is idle
// publishes that only with its next step.
func (r *rank) reset() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := r.sim.Reset()
	if r.eager {
		signal(r.wake)
	}
	return done
}

// load is the number of requests in the rank.
func (r *rank) load() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sim.Running() + r.sim.Waiting()
}

// run is the step loop. Each step's tokens and events appear when its duration
// has passed. The deadline of a step counts from that of the one before, so that
// late timers don't slow the engine down.
func (r *rank) run(ctx context.Context) {
	var deadline time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		r.mu.Lock()
		step := r.sim.Step()
		events := r.sim.TakeEvents()
		r.mu.Unlock()
		payload := r.encode(events)
		if step.Scheduled == 0 {
			r.publish(payload)
			deadline = time.Time{}
			select {
			case <-r.wake:
			case <-ctx.Done():
			}
			continue
		}
		if deadline.IsZero() {
			deadline = time.Now()
		}
		deadline = deadline.Add(scaled(step.Duration, r.speed, r.faults.view().slow))
		if left := time.Until(deadline); left > 0 {
			timer.Reset(left)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		r.publish(payload)
		for _, o := range step.Outputs {
			j := o.Request.Tag.(*job) //nolint:forcetypeassert // set by submit
			j.ready.Store(int32(o.Index) + 1)
			signal(j.notify)
		}
	}
}

// encode returns the message for a step's events, nil if there are none. It is
// called before the events' memory is used again.
func (r *rank) encode(events []sim.Event) []byte {
	if r.outbox == nil || len(events) == 0 {
		return nil
	}
	v := r.faults.view()
	if v.muteCleared || v.muteRemoved {
		events = slices.DeleteFunc(events, func(e sim.Event) bool {
			return v.muteCleared && e.Kind == sim.AllBlocksCleared || v.muteRemoved && e.Kind == sim.BlockRemoved
		})
		if len(events) == 0 {
			return nil
		}
	}
	if r.trtllm != nil {
		return r.trtllm.encode(events)
	}
	if v.eventBlock > 0 {
		events = finer(events, v.eventBlock, r.sim.Config().BlockSize)
	}
	now := float64(time.Now().UnixMicro()) / float64(time.Second/time.Microsecond)
	return r.encoder.encode(now, events)
}

func (r *rank) publish(payload []byte) {
	if payload != nil {
		r.outbox.post(payload)
	}
}

// hashes returns the chain of block hashes of a job's tokens. Like vLLM's, they
// depend on a seed of the process, so nobody can match on them across engines.
func (r *rank) hashes(id *identity, tokens []uint32) []uint64 {
	size := r.sim.Config().BlockSize
	chain := make([]uint64, len(tokens)/size)
	buf := make([]byte, 0, 8+4*size+64)
	previous := r.seed
	for i := range chain {
		buf = binary.LittleEndian.AppendUint64(buf[:0], previous)
		for _, token := range tokens[i*size : (i+1)*size] {
			buf = binary.LittleEndian.AppendUint32(buf, token)
		}
		buf = append(buf, id.adapter...)
		for _, im := range id.images {
			if im.overlaps(i, size) {
				buf = append(append(buf, 0), im.id...)
			}
		}
		if i == 0 {
			buf = append(append(buf, 0), id.salt...)
		}
		previous = xxhash.Sum64(buf)
		chain[i] = previous
	}
	return chain
}
