package fleettest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

const (
	// pathEvents is where events are taken out.
	pathEvents = "/kv_cache_events"
	// trtllmBlockSize is the engine's default, in tokens.
	trtllmBlockSize = 32
	// trtllmPriority is the engine's default retention priority.
	trtllmPriority = 35
)

// polled reports whether events wait to be taken out.
func (c *Config) polled() bool { return c.Dialect == TensorRTLLM && c.EventBuffer > 0 }

// openBuffer opens a rank's event buffer, if there is to be one.
func (c *Config) openBuffer(rank int, url string) opened {
	if !c.polled() {
		return opened{}
	}
	b := &eventBuffer{max: c.EventBuffer, first: created(c, rank)}
	b.RestartUnseen()
	return opened{Publisher: b, endpoint: follow.Endpoint{Events: url, Rank: rank}}
}

// takeEvents answers a poll: with all that there is, which is then gone.
func (l *life) takeEvents(w http.ResponseWriter, _ *http.Request) {
	var list [][]byte
	for _, p := range l.publishers {
		if b, ok := p.Publisher.(*eventBuffer); ok {
			list = append(list, b.take()...)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(slices.Concat([]byte("["), bytes.Join(list, []byte(",")), []byte("]")))
}

// eventBuffer is a Publisher whose subscribers come and fetch. A payload has a
// line for each event, without a number.
type eventBuffer struct {
	max   int
	first []byte // the "created" event

	mu     sync.Mutex
	next   uint64
	events [][]byte
	lose   int
}

// Publish implements Publisher. It returns the number of the first event.
func (b *eventBuffer) Publish(payload []byte) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.next
	b.addLocked(payload)
	return first
}

func (b *eventBuffer) addLocked(payload []byte) {
	lost := b.lose > 0
	if lost {
		b.lose--
	}
	for line := range bytes.Lines(payload) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !lost {
			id := strconv.FormatUint(b.next, 10)
			b.events = append(b.events, slices.Concat([]byte(`{"event_id":`), []byte(id), []byte(","), line))
		}
		b.next++
	}
	if more := len(b.events) - b.max; more > 0 {
		b.events = slices.Delete(b.events, 0, more)
	}
}

func (b *eventBuffer) take() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.events
	b.events = nil
	return list
}

// Lose uses up the numbers of the next n steps' events without the events.
func (b *eventBuffer) Lose(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose = n
}

// Burn uses up a number.
func (b *eventBuffer) Burn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
}

// RestartUnseen begins anew, as each process does.
func (b *eventBuffer) RestartUnseen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next, b.events, b.lose = 0, nil, 0
	b.addLocked(b.first)
}

// trtllmEncoder words a rank's events. In this engine's tree a block is there or
// not, so that copies of one are told once.
type trtllmEncoder struct {
	cfg    *Config
	rank   int
	copies map[uint64]int
}

func newTRTLLMEncoder(cfg *Config, rank int) *trtllmEncoder {
	return &trtllmEncoder{cfg: cfg, rank: rank, copies: make(map[uint64]int)}
}

// The events' form.
type (
	trtllmEvent struct {
		Data   any  `json:"data"`
		Window int  `json:"window_size"`
		Rank   *int `json:"attention_dp_rank,omitempty"`
	}
	trtllmStored struct {
		Type   string        `json:"type"`
		Parent *uint64       `json:"parent_hash"`
		Blocks []trtllmBlock `json:"blocks"`
	}
	trtllmBlock struct {
		Type     string        `json:"type"`
		Hash     uint64        `json:"block_hash"`
		Tokens   []trtllmToken `json:"tokens"`
		LoRA     *int          `json:"lora_id,omitempty"`
		Level    int           `json:"cache_level"`
		Priority int           `json:"priority"`
		Keys     []object      `json:"mm_keys"`
		Salt     *string       `json:"cache_salt"`
	}
	trtllmToken struct {
		Type  string `json:"type"`
		ID    uint32 `json:"token_id"`
		Extra int    `json:"token_extra_id"`
	}
	trtllmRemoved struct {
		Type   string   `json:"type"`
		Hashes []uint64 `json:"block_hashes"`
	}
)

// created is the first event of a process.
func created(c *Config, rank int) []byte {
	blocks := either(c.Blocks, sim.DefaultBlocks)
	return trtllmLine(nil, c, rank, object{"type": "created", "num_blocks_per_cache_level": []int{blocks, 0}})
}

// trtllmLine appends one event without its opening brace and number.
func trtllmLine(to []byte, c *Config, rank int, data any) []byte {
	event := trtllmEvent{Data: data, Window: c.MaxModelLen}
	if c.Ranks > 1 {
		event.Rank = &rank
	}
	raw, err := json.Marshal(event)
	if err != nil {
		return to // these types can't fail
	}
	return append(append(to, raw[1:]...), '\n')
}

// encode returns the lines of a step's events, nil if nobody has to be told.
func (e *trtllmEncoder) encode(events []sim.Event) []byte {
	var lines []byte
	for i := range events {
		event := &events[i]
		switch event.Kind {
		case sim.BlockStored:
			lines = e.stored(lines, event)
		case sim.BlockRemoved:
			lines = e.removed(lines, event.Hashes)
		case sim.AllBlocksCleared:
			// There is no such event: every block is removed.
			all := slices.Sorted(maps.Keys(e.copies))
			for _, hash := range all {
				e.copies[hash] = 1
			}
			lines = e.removed(lines, all)
		default:
		}
	}
	return lines
}

// stored tells runs of blocks that were not there.
func (e *trtllmEncoder) stored(lines []byte, event *sim.Event) []byte {
	id := identityOf(event)
	data := trtllmStored{Type: "stored"}
	if event.HasParent {
		data.Parent = &event.Parent
	}
	flush := func() {
		if len(data.Blocks) > 0 {
			lines = trtllmLine(lines, e.cfg, e.rank, data)
			data.Blocks = nil
		}
	}
	for i, hash := range event.Hashes {
		e.copies[hash]++
		if e.copies[hash] > 1 {
			flush()
			data.Parent = &event.Hashes[i]
			continue
		}
		tokens := event.Tokens[i*event.BlockSize : (i+1)*event.BlockSize]
		data.Blocks = append(data.Blocks, id.trtllmBlock(hash, tokens, event.First+i))
	}
	flush()
	return lines
}

func (id *identity) trtllmBlock(hash uint64, tokens []uint32, place int) trtllmBlock {
	b := trtllmBlock{Type: "stored_block", Hash: hash, Priority: trtllmPriority, Keys: []object{}}
	for _, token := range tokens {
		b.Tokens = append(b.Tokens, trtllmToken{Type: "unique_token", ID: token})
	}
	if id.adapterID > 0 {
		b.LoRA = &id.adapterID
	}
	if id.salt != "" {
		b.Salt = &id.salt
	}
	for _, im := range id.images {
		if im.overlaps(place, len(tokens)) {
			b.Keys = append(b.Keys, object{"type": "mm_key", "hash": im.id, "start_offset": im.offset - place*len(tokens)})
		}
	}
	return b
}

func (e *trtllmEncoder) removed(lines []byte, hashes []uint64) []byte {
	data := trtllmRemoved{Type: "removed"}
	for _, hash := range hashes {
		if e.copies[hash]--; e.copies[hash] <= 0 {
			delete(e.copies, hash)
			data.Hashes = append(data.Hashes, hash)
		}
	}
	if len(data.Hashes) == 0 {
		return lines
	}
	return trtllmLine(lines, e.cfg, e.rank, data)
}
