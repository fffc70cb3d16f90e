package kvcache_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/internal/cputime"
	"github.com/kvsteer/kvsteer/kvcache"
)

// The fleet of the benchmarks: 64 workers, 1,000 prompts of 1,000 blocks of 16
// tokens in 16 families that share their first 64 blocks: a million blocks. Every
// worker holds every family's start; each prompt goes on at eight workers, to a
// depth of its own at each.
const (
	benchWorkers  = 64
	benchPrompts  = 1000
	benchBlocks   = 1000
	benchShared   = 64
	benchFamilies = 16
	benchHolders  = 8
	benchSize     = 16
	benchChunk    = 128 // blocks per event
)

type benchFleet struct {
	index   *kvcache.Index
	owners  []kvcache.Owner
	prompts [][]kvcache.Key
	// depth is how far a worker holds a prompt: depth[prompt][worker].
	depth [][]int32
}

func benchHash(k kvcache.Key) kvcache.EngineHash {
	return kvcache.EngineHash(uint64(k) * 0x9e3779b97f4a7c15)
}

// newBenchFleet builds the fleet. With holes, half of the workers of each prompt
// lose 2% of its blocks, anywhere.
func newBenchFleet(b *testing.B, holes bool) *benchFleet {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	f := &benchFleet{index: kvcache.NewIndex(kvcache.Options{MaxBytes: 4 << 30})}
	for range benchWorkers {
		f.owners = append(f.owners, f.index.Join("w"))
	}
	families := make([][]uint32, benchFamilies)
	for i := range families {
		families[i] = randomTokens(r, benchShared*benchSize)
	}
	h := kvcache.Hasher{BlockSize: benchSize}
	for p := range benchPrompts {
		tokens := append(slices.Clone(families[p%benchFamilies]), randomTokens(r, (benchBlocks-benchShared)*benchSize)...)
		keys := h.Keys(nil, tokens, kvcache.Scope{}, nil)
		depth := make([]int32, benchWorkers)
		for w := range depth {
			depth[w] = benchShared
		}
		for _, w := range r.Perm(benchWorkers)[:benchHolders] {
			depth[w] = int32(benchShared + r.IntN(benchBlocks-benchShared+1))
		}
		for w, d := range depth {
			if p >= benchFamilies && d <= benchShared {
				continue
			}
			f.store(f.owners[w], tokens, keys, int(d))
			if holes && w%2 == 0 {
				for i := benchShared; i < int(d); i++ {
					if r.IntN(50) == 0 {
						f.index.Apply(f.owners[w], &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{benchHash(keys[i])}})
						depth[w] = min(depth[w], int32(i))
					}
				}
			}
		}
		f.prompts = append(f.prompts, keys)
		f.depth = append(f.depth, depth)
	}
	return f
}

func (f *benchFleet) store(o kvcache.Owner, tokens []uint32, keys []kvcache.Key, blocks int) {
	for from := 0; from < blocks; from += benchChunk {
		to := min(from+benchChunk, blocks)
		e := kvcache.Event{
			Kind: kvcache.Stored, BlockSize: benchSize, Tokens: tokens[from*benchSize : to*benchSize], HasParent: from > 0,
		}
		for i := from; i < to; i++ {
			e.Hashes = append(e.Hashes, benchHash(keys[i]))
		}
		if from > 0 {
			e.Parent = benchHash(keys[from-1])
		}
		f.index.Apply(o, &e)
	}
}

// match checks every answer and reports how long they take.
func (f *benchFleet) match(b *testing.B) {
	b.Helper()
	hits := make([]kvcache.Hit, benchWorkers)
	for p, keys := range f.prompts {
		f.index.Match(keys, f.owners, hits)
		for w, h := range hits {
			if h.Blocks != f.depth[p][w] {
				b.Fatalf("prompt %d, worker %d: %d blocks, want %d", p, w, h.Blocks, f.depth[p][w])
			}
		}
	}
	b.ReportAllocs()
	b.ReportMetric(float64(f.index.Stats().Blocks), "blocks")
	r := rand.New(rand.NewPCG(3, 4))
	var took durations
	for b.Loop() {
		keys := f.prompts[r.IntN(len(f.prompts))]
		start := time.Now()
		f.index.Match(keys, f.owners, hits)
		took.add(time.Since(start))
	}
	took.report(b)
}

// durations keeps a bounded number of measurements.
type durations struct {
	n   int
	all [1 << 18]time.Duration
}

func (d *durations) add(v time.Duration) {
	d.all[d.n%len(d.all)] = v
	d.n++
}

func (d *durations) report(b *testing.B) {
	b.Helper()
	if d.n == 0 {
		return // a single iteration was over before anything could be measured
	}
	p50, p99 := d.quantiles()
	b.ReportMetric(p50, "p50-ns")
	b.ReportMetric(p99, "p99-ns")
}

func (d *durations) reportAs(b *testing.B, what string) {
	b.Helper()
	if d.n == 0 {
		return
	}
	p50, p99 := d.quantiles()
	b.ReportMetric(p50, what+"-p50-ns")
	b.ReportMetric(p99, what+"-p99-ns")
}

func (d *durations) quantiles() (p50, p99 float64) {
	all := d.all[:min(d.n, len(d.all))]
	slices.Sort(all)
	return float64(all[len(all)/2]), float64(all[len(all)*99/100])
}

// BenchmarkMatch asks 64 workers for a prompt of 1,000 blocks among a million.
func BenchmarkMatch(b *testing.B) { newBenchFleet(b, false).match(b) }

// BenchmarkMatchHoles is BenchmarkMatch with 2% of the blocks missing at half of
// the workers.
func BenchmarkMatchHoles(b *testing.B) { newBenchFleet(b, true).match(b) }

// BenchmarkMatchAllHolders is the hard case: every one of 64 workers holds every
// prompt to a depth of its own, so that no two need be alike.
func BenchmarkMatchAllHolders(b *testing.B) {
	r := rand.New(rand.NewPCG(31, 32))
	f := &benchFleet{index: kvcache.NewIndex(kvcache.Options{MaxBytes: 4 << 30})}
	for range benchWorkers {
		f.owners = append(f.owners, f.index.Join("w"))
	}
	h := kvcache.Hasher{BlockSize: benchSize}
	for range benchPrompts / 10 {
		tokens := randomTokens(r, benchBlocks*benchSize)
		keys := h.Keys(nil, tokens, kvcache.Scope{}, nil)
		depth := make([]int32, benchWorkers)
		for w := range depth {
			depth[w] = int32(r.IntN(benchBlocks + 1))
			f.store(f.owners[w], tokens, keys, int(depth[w]))
		}
		f.prompts, f.depth = append(f.prompts, keys), append(f.depth, depth)
	}
	f.match(b)
}

// BenchmarkClear clears an owner of a million blocks.
func BenchmarkClear(b *testing.B) {
	r := rand.New(rand.NewPCG(35, 36))
	f := &benchFleet{index: kvcache.NewIndex(kvcache.Options{})}
	o := f.index.Join("w")
	h := kvcache.Hasher{BlockSize: 1}
	prompts := make([][]uint32, benchPrompts)
	for i := range prompts {
		prompts[i] = randomTokens(r, benchBlocks)
	}
	var took time.Duration
	for b.Loop() {
		for _, t := range prompts {
			for _, e := range chainEvents(t, h.BlockSize, benchBlocks, 0) {
				f.index.Apply(o, &e)
			}
		}
		start := cputime.Process()
		f.index.Clear(o)
		took += cputime.Process() - start
	}
	b.ReportMetric(float64(took)/float64(b.N)/1e6, "clear-cpu-ms")
}

// BenchmarkBudget floods an index of 8 MiB, some 100,000 blocks, with prompts that
// never come again, at 32 workers, and matches one that does in between.
func BenchmarkBudget(b *testing.B) {
	const workers = 32
	r := rand.New(rand.NewPCG(37, 38))
	f := &benchFleet{index: kvcache.NewIndex(kvcache.Options{MaxBytes: 8 << 20})}
	for range workers {
		f.owners = append(f.owners, f.index.Join("w"))
	}
	hot := randomTokens(r, 64*benchSize)
	keys := kvcache.Hasher{BlockSize: benchSize}.Keys(nil, hot, kvcache.Scope{}, nil)
	for _, o := range f.owners {
		f.store(o, hot, keys, 64)
	}
	hits := make([]kvcache.Hit, workers)
	var took durations
	var highest int64
	n := 0
	for b.Loop() {
		tokens := randomTokens(r, 2*benchSize)
		for _, e := range chainEvents(tokens, benchSize, 2, 0) {
			f.index.Apply(f.owners[n%workers], &e)
		}
		if n++; n%16 != 0 {
			continue
		}
		start := time.Now()
		f.index.Match(keys, f.owners, hits)
		took.add(time.Since(start))
		if hits[0].Blocks != 64 {
			b.Fatal("the hot prompt has left")
		}
		highest = max(highest, f.index.Stats().Bytes)
	}
	if took.n == 0 {
		return
	}
	if highest > 8<<20 {
		b.Fatalf("%d bytes", highest)
	}
	took.report(b)
	b.ReportMetric(float64(highest), "bytes")
	b.ReportMetric(float64(f.index.Stats().Evicted), "evicted")
}

// BenchmarkMemory measures the live heap per (worker, block). Prompts are of 1 to
// 1,000 blocks.
func BenchmarkMemory(b *testing.B) {
	for _, holders := range []int{1, 4} {
		b.Run(fmt.Sprintf("holders=%d", holders), func(b *testing.B) {
			r := rand.New(rand.NewPCG(5, 6))
			h := kvcache.Hasher{BlockSize: benchSize}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			f := &benchFleet{index: kvcache.NewIndex(kvcache.Options{MaxBytes: 4 << 30})}
			for range 8 {
				f.owners = append(f.owners, f.index.Join("w"))
			}
			tokens := make([]uint32, 0, benchBlocks*benchSize)
			var keys []kvcache.Key
			for pairs := 0; pairs < 1_000_000; {
				n := 1 + r.IntN(benchBlocks)
				tokens = tokens[:n*benchSize]
				for i := range tokens {
					tokens[i] = r.Uint32N(152064)
				}
				keys = h.Keys(keys[:0], tokens, kvcache.Scope{}, nil)
				for i := range holders {
					f.store(f.owners[(pairs+i)%len(f.owners)], tokens, keys, n)
				}
				pairs += n * holders
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			s := f.index.Stats()
			for b.Loop() {
				runtime.KeepAlive(f)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(s.Pairs), "B/pair")
			b.ReportMetric(float64(s.Bytes)/float64(s.Pairs), "counted-B/pair")
		})
	}
}

// BenchmarkRemoveChain removes a chain block by block, from its root and from its
// leaf. The time per block must not depend on the length.
func BenchmarkRemoveChain(b *testing.B) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, blocks := range []int{4096, 8 * 4096} {
		for _, from := range []string{"root", "leaf"} {
			b.Run(fmt.Sprintf("blocks=%d/from=%s", blocks, from), func(b *testing.B) {
				x := kvcache.NewIndex(kvcache.Options{})
				o := x.Join("w")
				events := chainEvents(randomTokens(r, blocks), 1, 512, 0)
				var hashes []kvcache.EngineHash
				for i := range events {
					hashes = append(hashes, events[i].Hashes...)
				}
				if from == "leaf" {
					slices.Reverse(hashes)
				}
				var took time.Duration
				for b.Loop() {
					for i := range events {
						x.Apply(o, &events[i])
					}
					start := cputime.Process()
					for i := range hashes {
						x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: hashes[i : i+1]})
					}
					took += cputime.Process() - start
				}
				b.ReportMetric(float64(took)/float64(b.N)/float64(blocks), "cpu-ns/block")
			})
		}
	}
}
