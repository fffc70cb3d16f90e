package kvcache_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/internal/cputime"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// A stream of messages as vLLM sends them, one for each of its steps: each stores a
// piece of a prompt, in events of up to 64 blocks, and removes as many old ones, the
// last first, one by one.
const (
	streamOwners  = 64
	streamPrompts = 16 // per owner, before the stream repeats
	streamStore   = 256
	streamEvent   = 64
)

// Steps that prefill store as much as fits one, 8,192 tokens in vLLM by default: 512
// blocks of 16. Steps that only decode store a block for each request that has just
// filled one, so some 4 with 64 requests.
const (
	messageDecode  = 16
	messageMixed   = 64
	messagePrefill = 2 * streamStore
)

type benchMessage struct {
	owner   int
	payload []byte
	ops     int
}

// benchStream makes a stream of messages of ops block operations each that can be
// played again and again: the prompts removed in its first half were stored in its
// second.
func benchStream(ops int) (messages []benchMessage, keys [][]kvcache.Key) {
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
	n := ops / 2
	for p := range streamPrompts {
		for from := 0; from < streamStore; from += n {
			for o := range streamOwners {
				old := all[o][(p+streamPrompts/2)%streamPrompts]
				payload := packMessage(tokens[o][p], all[o][p], from, n, old[streamStore-from-n:streamStore-from])
				messages = append(messages, benchMessage{o, payload, ops})
			}
		}
	}
	return messages, keys
}

// packMessage encodes one message in msgpack: n blocks of a prompt stored and some of
// another removed.
func packMessage(tokens []uint32, store []kvcache.Key, from, n int, remove []kvcache.Key) []byte {
	b := []byte{0x93, 0xcb, 0x41, 0xda, 0xac, 0x4e, 0xe0, 0x10, 0, 0}
	b = packArray(b, (n+streamEvent-1)/streamEvent+len(remove))
	for end := from + n; from < end; from += streamEvent {
		n := min(streamEvent, end-from)
		b = append(b, 0x8b)
		b = packHashes(packText(packText(b, "type", "BlockStored"), "block_hashes"), store[from:from+n])
		b = packText(b, "parent_block_hash")
		if from == 0 {
			b = append(b, 0xc0)
		} else {
			b = packUint(b, uint64(benchHash(store[from-1])))
		}
		b = packArray(packText(b, "token_ids"), n*benchSize)
		for _, t := range tokens[from*benchSize : (from+n)*benchSize] {
			b = packUint(b, uint64(t))
		}
		b = append(packText(b, "block_size"), benchSize)
		b = append(packText(b, "lora_id"), 0xc0)
		b = packText(b, "medium", "GPU")
		b = append(packText(b, "lora_name"), 0xc0)
		b = packArray(packText(b, "extra_keys"), n)
		for range n {
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

func newBenchWriter(ops int) (*benchWriter, [][]kvcache.Key) {
	w := &benchWriter{index: kvcache.NewIndex(kvcache.Options{})}
	for range streamOwners {
		w.owners = append(w.owners, w.index.Join("w"))
	}
	messages, keys := benchStream(ops)
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
	for _, ops := range []int{messageDecode, messageMixed, messagePrefill} {
		b.Run(fmt.Sprintf("flood/message=%d", ops), func(b *testing.B) {
			w, _ := newBenchWriter(ops)
			for range w.messages {
				w.play(b)
			}
			b.ReportAllocs()
			b.ResetTimer()
			ops, cpu := 0, cputime.Process()
			for range b.N {
				ops += w.play(b)
			}
			b.ReportMetric(float64(ops)/b.Elapsed().Seconds(), "block-ops/s")
			b.ReportMetric(float64(ops)/(cputime.Process()-cpu).Seconds(), "block-ops/cpu-s")
			w.finish(b)
		})
	}
	for _, ops := range []int{messageDecode, messageMixed, messagePrefill} {
		b.Run(fmt.Sprintf("paced/message=%d", ops), func(b *testing.B) { benchPaced(b, ops) })
	}
}

// finish checks that the index holds what the stream leaves.
func (w *benchWriter) finish(b *testing.B) {
	b.Helper()
	for w.next%len(w.messages) != 0 {
		w.play(b)
	}
	if s := w.index.Stats(); s.Pairs != streamOwners*streamPrompts/2*streamStore {
		b.Fatalf("%d pairs remain", s.Pairs)
	}
}

// benchPaced offers 500,000 block operations a second from one goroutine while
// another matches 10,000 times a second. The clock of a message starts when it is
// due, not when the writer gets to it. Both spin until something is due, as timers
// are a millisecond late.
//
// "visible" is by the wall clock, in which other processes of the machine have their
// share. "alone" is how long the same messages would have waited and taken on a core
// of their own: the queue is computed from each message's processor time.
func benchPaced(b *testing.B, ops int) {
	b.Helper()
	const opsPerSecond, matchesPerSecond = 500_000, 10_000
	w, keys := newBenchWriter(ops)
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
			spinUntil(begin.Add(time.Duration(i) * time.Second / matchesPerSecond))
			k := keys[r.IntN(len(keys))]
			start := time.Now()
			w.index.Match(k, w.owners, hits)
			matched.add(time.Since(start))
		}
	})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var visible, alone, served durations
	b.ResetTimer()
	begin, done, idle := time.Now(), 0, time.Duration(0)
	for range b.N {
		offset := time.Duration(done) * time.Second / opsPerSecond
		due := begin.Add(offset)
		spinUntil(due)
		start, cpu := time.Now(), threadTime()
		done += w.play(b)
		took := time.Since(start)
		if cpu > 0 {
			took = threadTime() - cpu
		}
		served.add(took)
		visible.add(time.Since(due))
		idle = max(idle, offset) + took // when the core is free again
		alone.add(idle - offset)
	}
	elapsed := b.Elapsed()
	stop.Store(true)
	wg.Wait()
	w.finish(b)
	b.ReportMetric(float64(done)/elapsed.Seconds(), "block-ops/s")
	b.ReportMetric(float64(matched.n)/elapsed.Seconds(), "matches/s")
	matched.reportAs(b, "match")
	served.reportAs(b, "served")
	alone.reportAs(b, "alone")
	visible.reportAs(b, "visible")
}

func spinUntil(t time.Time) {
	for time.Now().Before(t) {
		continue
	}
}
