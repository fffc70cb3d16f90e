package follow_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/kvsteer/kvsteer/kvcache"
)

// The trace names stretches of 512 tokens, equal names for equal prompts up to
// there. A worker has room for 16,384 blocks of 16 tokens.
const (
	traceWorkers  = 64
	traceBlock    = 16
	traceStretch  = 32                   // blocks
	traceCapacity = 16384 / traceStretch // stretches
)

// traceMessage is what one worker publishes after one scheduler step.
type traceMessage struct {
	worker  int
	ops     int // blocks stored and removed
	payload []byte
}

// traceEngine is an engine's cache: stretches, least recently used first out.
type traceEngine struct {
	used  map[uint64]int
	clock int
}

// traceMessages lets 64 engines serve the trace, each prompt where most of it is,
// and returns what they publish, in order, with the blocks held at the end.
func traceMessages(b *testing.B, file string, stepOps int) (messages []traceMessage, held int) {
	b.Helper()
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	engines := make([]traceEngine, traceWorkers)
	for i := range engines {
		engines[i].used = map[uint64]int{}
	}
	r := rand.New(rand.NewPCG(41, 42))
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q struct {
			HashIDs []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			b.Fatal(err)
		}
		best, most := r.IntN(traceWorkers), len(q.HashIDs)/2
		for i := range engines {
			if n := engines[i].holds(q.HashIDs); n > most {
				best, most = i, n
			}
		}
		s := step{limit: stepOps, worker: best, out: &messages}
		engines[best].serve(q.HashIDs, &s)
		s.end()
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	for i := range engines {
		held += len(engines[i].used) * traceStretch
	}
	return messages, held
}

func (e *traceEngine) holds(ids []uint64) int {
	for n, id := range ids {
		if _, ok := e.used[id]; !ok {
			return n
		}
	}
	return len(ids)
}

// serve computes what is missing and lets go of what there is no more room for,
// the last blocks of the oldest stretch first.
func (e *traceEngine) serve(ids []uint64, s *step) {
	for i, id := range ids {
		if _, ok := e.used[id]; !ok {
			s.store(ids, i)
		}
	}
	for _, id := range slices.Backward(ids) {
		e.clock++
		e.used[id] = e.clock
	}
	for len(e.used) > traceCapacity {
		var old uint64
		oldest := e.clock + 1
		for id, t := range e.used {
			if t < oldest {
				old, oldest = id, t
			}
		}
		delete(e.used, old)
		for i := traceStretch - 1; i >= 0; i-- {
			s.remove(traceHash(old, i))
		}
	}
}

// appendStretch makes the tokens of a stretch from its name.
func appendStretch(tokens []uint32, id uint64) []uint32 {
	v := id*0x9e3779b97f4a7c15 + 1
	for range traceStretch * traceBlock {
		v = v*6364136223846793005 + 1442695040888963407
		tokens = append(tokens, uint32(v>>47))
	}
	return tokens
}

func traceHash(id uint64, block int) kvcache.EngineHash {
	return kvcache.EngineHash((id*traceStretch + uint64(block) + 1) * 0x9e3779b97f4a7c15)
}

// step gathers the events of one scheduler step, in vLLM's encoding.
type step struct {
	limit, worker int
	out           *[]traceMessage
	events, ops   int
	body          []byte
	tokens        []uint32
}

func (s *step) end() {
	if s.events == 0 {
		return
	}
	// [time, events, rank]; the time makes each message one of its own.
	p := append([]byte{0x93, 0xcb}, binary.BigEndian.AppendUint64(nil, math.Float64bits(1.8e9+float64(len(*s.out))))...)
	p = binary.BigEndian.AppendUint32(append(p, 0xdd), uint32(s.events))
	p = append(append(p, s.body...), 0)
	*s.out = append(*s.out, traceMessage{worker: s.worker, ops: s.ops, payload: p})
	s.events, s.ops, s.body = 0, 0, s.body[:0]
}

func (s *step) event(ops int) {
	if s.ops+ops > s.limit {
		s.end()
	}
	s.events++
	s.ops += ops
}

func (s *step) text(v string) { s.body = append(append(s.body, 0xa0|byte(len(v))), v...) }

func (s *step) uint(v uint64) {
	s.body = binary.BigEndian.AppendUint64(append(s.body, 0xcf), v)
}

func (s *step) array(n int) {
	s.body = binary.BigEndian.AppendUint16(append(s.body, 0xdc), uint16(n))
}

func (s *step) store(ids []uint64, i int) {
	s.event(traceStretch)
	s.body = append(s.body, 0x80|6)
	s.text("type")
	s.text("BlockStored")
	s.text("block_hashes")
	s.array(traceStretch)
	for k := range traceStretch {
		s.uint(uint64(traceHash(ids[i], k)))
	}
	s.text("parent_block_hash")
	if i == 0 {
		s.body = append(s.body, 0xc0)
	} else {
		s.uint(uint64(traceHash(ids[i-1], traceStretch-1)))
	}
	s.text("token_ids")
	s.array(traceStretch * traceBlock)
	s.tokens = appendStretch(s.tokens[:0], ids[i])
	for _, token := range s.tokens {
		s.body = binary.BigEndian.AppendUint32(append(s.body, 0xce), token)
	}
	s.text("block_size")
	s.body = append(s.body, traceBlock)
	s.text("medium")
	s.text("GPU")
}

func (s *step) remove(h kvcache.EngineHash) {
	s.event(1)
	s.body = append(s.body, 0x80|3)
	s.text("type")
	s.text("BlockRemoved")
	s.text("block_hashes")
	s.array(1)
	s.uint(uint64(h))
	s.text("medium")
	s.text("GPU")
}
