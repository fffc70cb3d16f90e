package kvcache_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

var traceFile = flag.String("kvcache.trace", "", "a Mooncake trace, one JSON request a line, for BenchmarkTrace")

// The replay: 64 workers with room for 16,384 blocks of 16 tokens each. A trace
// names stretches of 512 tokens, equal names for equal prompts up to there.
const (
	traceWorkers  = 64
	traceCapacity = 16384 / traceStretch // stretches
	traceStretch  = 32                   // blocks
	traceRate     = 500_000              // block operations a second offered
	traceStep     = 512                  // blocks in a message: a step of an engine, 8,192 tokens
)

type traceRequest struct {
	HashIDs []uint64 `json:"hash_ids"`
}

// traceWorker is an engine's cache: stretches, least recently used first out.
type traceWorker struct {
	owner kvcache.Owner
	used  map[uint64]int // stretch to time of use
	clock int
}

// BenchmarkTrace replays a trace by the clock: every message has a time at which
// it is due, whether or not the one before is done, and its delay counts from
// then. A message is what an engine says of one step: of up to 512 blocks. The rate
// achieved counts to the moment the last one is visible. "alone" is as in
// BenchmarkApply. Run it with -kvcache.trace FILE -benchtime 1x.
func BenchmarkTrace(b *testing.B) {
	if *traceFile == "" {
		b.Skip("needs -kvcache.trace")
	}
	requests := readTrace(b)
	for b.Loop() {
		replayTrace(b, requests)
	}
}

func readTrace(b *testing.B) []traceRequest {
	b.Helper()
	f, err := os.Open(*traceFile)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var all []traceRequest
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r traceRequest
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			b.Fatal(err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	return all
}

func replayTrace(b *testing.B, requests []traceRequest) {
	b.Helper()
	x := kvcache.NewIndex(kvcache.Options{})
	r := rand.New(rand.NewPCG(41, 42))
	workers := make([]traceWorker, traceWorkers)
	owners := make([]kvcache.Owner, traceWorkers)
	for i := range workers {
		owners[i] = x.Join("w")
		workers[i] = traceWorker{owner: owners[i], used: map[uint64]int{}}
	}
	hits := make([]kvcache.Hit, traceWorkers)
	var matched, served, alone, visible durations
	var tokens []uint32
	var keys []kvcache.Key
	h := kvcache.Hasher{BlockSize: benchSize}
	ops, hit, asked := 0, 0, 0
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, free := time.Now(), time.Duration(0)
	for _, q := range requests {
		tokens = tokens[:0]
		for _, id := range q.HashIDs {
			tokens = appendStretch(tokens, id)
		}
		keys = h.Keys(keys[:0], tokens, kvcache.Scope{}, nil)
		start := time.Now()
		x.Match(keys, owners, hits)
		matched.add(time.Since(start))
		best := r.IntN(traceWorkers)
		for i := range hits {
			if hits[i].Blocks > hits[best].Blocks && int(hits[i].Blocks)*2 > len(keys) {
				best = i
			}
		}
		w := &workers[best]
		if want := w.holds(q.HashIDs); int(hits[best].Blocks) != want {
			b.Fatalf("%d blocks matched, the worker has %d", hits[best].Blocks, want)
		}
		hit, asked = hit+int(hits[best].Blocks), asked+len(keys)
		for events := w.serve(q.HashIDs, tokens); len(events) > 0; {
			offset := time.Duration(ops) * time.Second / traceRate
			spinUntil(begin.Add(offset))
			start, cpu, n := time.Now(), threadTime(), 0
			for len(events) > 0 && n < traceStep {
				x.Apply(w.owner, &events[0])
				n, events = n+len(events[0].Hashes), events[1:]
			}
			took := time.Since(start)
			if cpu > 0 {
				took = threadTime() - cpu
			}
			ops += n
			visible.add(time.Since(begin) - offset)
			served.add(took)
			free = max(free, offset) + took
			alone.add(free - offset)
		}
	}
	elapsed := time.Since(begin)
	b.ReportMetric(traceRate, "offered-ops/s")
	b.ReportMetric(float64(ops)/elapsed.Seconds(), "achieved-ops/s")
	b.ReportMetric(float64(hit)/float64(asked), "hit-ratio")
	b.ReportMetric(float64(x.Stats().Pairs), "pairs")
	matched.reportAs(b, "match")
	served.reportAs(b, "served")
	alone.reportAs(b, "alone")
	visible.reportAs(b, "visible")
	if s := x.Stats(); s.Orphans > 0 || s.Evicted > 0 || s.Ignored != [kvcache.NumReasons]uint64{} {
		b.Fatalf("not every event was applied: %+v", s)
	}
}

// appendStretch makes the tokens of a stretch from its name.
func appendStretch(tokens []uint32, id uint64) []uint32 {
	v := id*0x9e3779b97f4a7c15 + 1
	for range traceStretch * benchSize {
		v = v*6364136223846793005 + 1442695040888963407
		tokens = append(tokens, uint32(v>>47))
	}
	return tokens
}

func stretchHashes(id uint64) []kvcache.EngineHash {
	hs := make([]kvcache.EngineHash, traceStretch)
	for i := range hs {
		hs[i] = kvcache.EngineHash((id*traceStretch + uint64(i) + 1) * 0x9e3779b97f4a7c15)
	}
	return hs
}

// holds is how many leading blocks of a prompt the worker has.
func (w *traceWorker) holds(ids []uint64) int {
	n := 0
	for _, id := range ids {
		if _, ok := w.used[id]; !ok {
			break
		}
		n += traceStretch
	}
	return n
}

// serve computes what the worker lacks and returns the events: four stretches to
// a store, and the removals of what had to go, one by one and the last first.
func (w *traceWorker) serve(ids []uint64, tokens []uint32) []kvcache.Event {
	var events []kvcache.Event
	open := false
	for i, id := range ids {
		if _, ok := w.used[id]; ok {
			open = false
			continue
		}
		hashes := stretchHashes(id)
		end := (i + 1) * traceStretch * benchSize
		if last := len(events) - 1; open && len(events[last].Hashes) < 4*traceStretch {
			events[last].Hashes = append(events[last].Hashes, hashes...)
			events[last].Tokens = tokens[end-len(events[last].Hashes)*benchSize : end]
			continue
		}
		open = true
		e := kvcache.Event{
			Kind: kvcache.Stored, BlockSize: benchSize, Hashes: hashes, HasParent: i > 0,
			Tokens: tokens[end-traceStretch*benchSize : end],
		}
		if i > 0 {
			e.Parent = stretchHashes(ids[i-1])[traceStretch-1]
		}
		events = append(events, e)
	}
	for _, id := range slices.Backward(ids) {
		w.clock++
		w.used[id] = w.clock
	}
	for len(w.used) > traceCapacity {
		var old uint64
		oldest := w.clock + 1
		for id, t := range w.used {
			if t < oldest {
				old, oldest = id, t
			}
		}
		delete(w.used, old)
		hashes := stretchHashes(old)
		for _, h := range slices.Backward(hashes) {
			events = append(events, kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{h}})
		}
	}
	return events
}
