package kvcache_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// A stream of messages as vLLM sends them: each stores 256 blocks of a prompt in
// four events and removes as many old ones, the last first, one by one.
const (
	streamOwners  = 64
	streamPrompts = 16 // per owner, before the stream repeats
	streamStore   = 256
	streamEvent   = 64
)

type benchMessage struct {
	owner   int
	payload []byte
	ops     int
}

// benchStream makes a stream that can be played again and again: the prompts
// removed in its first half were stored in its second.
func benchStream() (messages []benchMessage, keys [][]kvcache.Key) {
	r := rand.New(rand.NewPCG(8, 9))
	h := kvcache.Hasher{BlockSize: benchSize}
	tokens := make([][][]uint32, streamOwners)
	all := make([][][]kvcache.Key, streamOwners)
	for o := range streamOwners {
		for range streamPrompts {
			t := randomTokens(r, streamStore*benchSize)
			tokens[o] = append(tokens[o], t)
			all[o] = append(all[o], h.Keys(nil, t, kvcache.Scope{}, nil))
		}
		keys = append(keys, all[o]...)
	}
	for p := range streamPrompts {
		for o := range streamOwners {
			old := all[o][(p+streamPrompts/2)%streamPrompts]
			payload := packMessage(tokens[o][p], all[o][p], old)
			messages = append(messages, benchMessage{o, payload, 2 * streamStore})
		}
	}
	return messages, keys
}

// packMessage encodes one message in msgpack.
func packMessage(tokens []uint32, store, remove []kvcache.Key) []byte {
	b := []byte{0x93, 0xcb, 0x41, 0xda, 0xac, 0x4e, 0xe0, 0x10, 0, 0}
	b = packArray(b, streamStore/streamEvent+len(remove))
	for from := 0; from < len(store); from += streamEvent {
		b = append(b, 0x8b)
		b = packHashes(packText(packText(b, "type", "BlockStored"), "block_hashes"), store[from:from+streamEvent])
		b = packText(b, "parent_block_hash")
		if from == 0 {
			b = append(b, 0xc0)
		} else {
			b = packUint(b, uint64(benchHash(store[from-1])))
		}
		b = packArray(packText(b, "token_ids"), streamEvent*benchSize)
		for _, t := range tokens[from*benchSize : (from+streamEvent)*benchSize] {
			b = packUint(b, uint64(t))
		}
		b = append(packText(b, "block_size"), benchSize)
		b = append(packText(b, "lora_id"), 0xc0)
		b = packText(b, "medium", "GPU")
		b = append(packText(b, "lora_name"), 0xc0)
		b = packArray(packText(b, "extra_keys"), streamEvent)
		for range streamEvent {
			b = append(b, 0xc0)
		}
		b = append(packText(b, "group_idx"), 0)
		b = packText(b, "kv_cache_spec_kind", "full_attention")
	}
	for _, h := range slices.Backward(remove) {
		b = append(b, 0x84)
		b = packHashes(packText(packText(b, "type", "BlockRemoved"), "block_hashes"), []kvcache.Key{h})
		b = packText(b, "medium", "GPU")
		b = append(packText(b, "group_idx"), 0)
	}
	return append(b, 0)
}

func packText(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = append(append(b, 0xa0|byte(len(s))), s...)
	}
	return b
}

func packArray(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
}

func packUint(b []byte, v uint64) []byte {
	switch {
	case v < 128:
		return append(b, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
	}
}

func packHashes(b []byte, keys []kvcache.Key) []byte {
	b = packArray(b, len(keys))
	for _, k := range keys {
		b = packUint(b, uint64(benchHash(k)))
	}
	return b
}

type benchWriter struct {
	index    *kvcache.Index
	owners   []kvcache.Owner
	messages []benchMessage
	decoder  wire.Decoder
	next     int
}

func newBenchWriter() (*benchWriter, [][]kvcache.Key) {
	w := &benchWriter{index: kvcache.NewIndex(kvcache.Options{})}
	for range streamOwners {
		w.owners = append(w.owners, w.index.Join("w"))
	}
	messages, keys := benchStream()
	w.messages = messages
	return w, keys
}

// play applies the next message and returns how many blocks it named.
func (w *benchWriter) play(b *testing.B) int {
	b.Helper()
	m := &w.messages[w.next%len(w.messages)]
	w.next++
	batch, err := w.decoder.Decode(m.payload)
	if err != nil {
		b.Fatal(err)
	}
	for i := range batch.Events {
		w.index.Apply(w.owners[m.owner], &batch.Events[i])
	}
	return m.ops
}

// BenchmarkApply goes from bytes off the wire to blocks that match.
func BenchmarkApply(b *testing.B) {
	b.Run("flood", func(b *testing.B) {
		w, _ := newBenchWriter()
		for range w.messages {
			w.play(b)
		}
		b.ReportAllocs()
		b.ResetTimer()
		ops, cpu := 0, cpuTime()
		for range b.N {
			ops += w.play(b)
		}
		b.ReportMetric(float64(ops)/b.Elapsed().Seconds(), "block-ops/s")
		b.ReportMetric(float64(ops)/(cpuTime()-cpu).Seconds(), "block-ops/cpu-s")
		if s := w.index.Stats(); s.Pairs != streamOwners*streamPrompts/2*streamStore {
			b.Fatalf("%d pairs remain", s.Pairs)
		}
	})
	b.Run("paced", benchPaced)
}

// benchPaced offers 500,000 block operations a second from one goroutine while
// another matches 10,000 times a second. The clock of a message starts when it is
// due, not when the writer gets to it.
func benchPaced(b *testing.B) {
	const opsPerSecond, matchesPerSecond = 500_000, 10_000
	w, keys := newBenchWriter()
	for range w.messages {
		w.play(b)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var matched durations
	wg.Go(func() {
		r := rand.New(rand.NewPCG(1, 9))
		hits := make([]kvcache.Hit, streamOwners)
		begin := time.Now()
		for i := 0; !stop.Load(); i++ {
			waitUntil(begin.Add(time.Duration(i) * time.Second / matchesPerSecond))
			k := keys[r.IntN(len(keys))]
			start := time.Now()
			w.index.Match(k, w.owners, hits)
			matched.add(time.Since(start))
		}
	})
	var visible, served durations
	b.ResetTimer()
	begin, ops := time.Now(), 0
	for range b.N {
		due := begin.Add(time.Duration(ops) * time.Second / opsPerSecond)
		waitUntil(due)
		start := time.Now()
		ops += w.play(b)
		served.add(time.Since(start))
		visible.add(time.Since(due))
	}
	elapsed := b.Elapsed()
	stop.Store(true)
	wg.Wait()
	b.ReportMetric(float64(ops)/elapsed.Seconds(), "block-ops/s")
	b.ReportMetric(float64(matched.n)/elapsed.Seconds(), "matches/s")
	matched.reportAs(b, "match")
	served.reportAs(b, "served")
	visible.reportAs(b, "visible")
}

// waitUntil sleeps, but not into the last moments, for which timers are too
// coarse.
func waitUntil(t time.Time) {
	const coarse = 200 * time.Microsecond
	if d := time.Until(t); d > coarse {
		time.Sleep(d - coarse)
	}
	for time.Now().Before(t) {
		continue
	}
}
