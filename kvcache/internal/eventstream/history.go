package eventstream

import (
	"sync"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// DefaultHistory is how many messages a publisher keeps for replay: vLLM's and
// SGLang's default of buffer_steps.
const DefaultHistory = 10000

// History is a publisher's ring of recent messages. It is safe for concurrent
// use.
type History struct {
	mu   sync.Mutex
	ring []follow.Message
	next int
	max  int
}

// NewHistory makes a ring of limit messages; 0 means DefaultHistory.
func NewHistory(limit int) *History {
	if limit <= 0 {
		limit = DefaultHistory
	}
	return &History{max: limit}
}

// Add records m, forgetting the oldest message when full.
func (h *History) Add(m follow.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ring) < h.max {
		h.ring = append(h.ring, m)
		return
	}
	h.ring[h.next] = m
	h.next = (h.next + 1) % h.max
}

// From returns the messages with a sequence number of at least from, oldest
// first. The payloads are shared and must not be changed.
func (h *History) From(from uint64) []follow.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []follow.Message
	for i := range h.ring {
		if m := h.ring[(h.next+i)%len(h.ring)]; m.Seq >= from {
			out = append(out, m)
		}
	}
	return out
}

// Answer sends the replies to a replay request, the end marker last. It stops at the
// first error of send, and returns it.
func (h *History) Answer(from uint64, withTopic bool, send func(frames [][]byte) error) error {
	for _, m := range h.From(from) {
		if err := send(Reply(m, withTopic)); err != nil {
			return err
		}
	}
	return send(End(withTopic))
}

// Reply returns the frames, delimiter first, that answer a replay request with
// m, in the newer vLLM shape (withTopic) or the older one.
func Reply(m follow.Message, withTopic bool) [][]byte {
	frames := [][]byte{{}}
	if withTopic {
		frames = append(frames, []byte(m.Topic))
	}
	return append(frames, SeqFrame(m.Seq), m.Payload)
}

// End returns the frames of the end marker.
func End(withTopic bool) [][]byte {
	return Reply(follow.Message{Seq: endSeq}, withTopic)
}
