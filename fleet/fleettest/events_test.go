package fleettest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// listener decodes what a publisher sends and keeps the resident hashes.
type listener struct {
	conn follow.Conn

	mu        sync.Mutex
	resident  map[kvcache.EngineHash]int
	seqs      []uint64
	events    []kvcache.Event
	malformed int
	cleared   int
}

// listen subscribes to an endpoint until the test ends.
func listen(t *testing.T, hub *follow.Hub, ep follow.Endpoint) *listener {
	t.Helper()
	conn, err := hub.Dial(t.Context(), ep)
	if err != nil {
		t.Fatal(err)
	}
	return follows(t, conn)
}

// follows reads a connection until the test ends.
func follows(t *testing.T, conn follow.Conn) *listener {
	t.Helper()
	l := &listener{conn: conn, resident: map[kvcache.EngineHash]int{}}
	var wg sync.WaitGroup
	wg.Go(l.run)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	return l
}

func (l *listener) run() {
	var dec wire.Decoder
	for {
		m, err := l.conn.Recv(context.Background())
		if err != nil {
			return
		}
		batch, err := dec.Decode(m.Payload)
		l.mu.Lock()
		l.seqs = append(l.seqs, m.Seq)
		if err != nil {
			l.malformed++
		} else {
			l.malformed += batch.Malformed + batch.Unknown
			for _, e := range batch.Events {
				l.apply(e)
			}
		}
		l.mu.Unlock()
	}
}

func (l *listener) apply(e kvcache.Event) {
	e.Hashes, e.Tokens = slices.Clone(e.Hashes), slices.Clone(e.Tokens)
	extras := make([][]kvcache.Extra, len(e.Extras))
	for i := range e.Extras {
		extras[i] = slices.Clone(e.Extras[i])
	}
	e.Extras = extras
	l.events = append(l.events, e)
	switch e.Kind {
	case kvcache.Stored:
		for _, h := range e.Hashes {
			l.resident[h]++
		}
	case kvcache.Removed:
		for _, h := range e.Hashes {
			if l.resident[h]--; l.resident[h] <= 0 {
				delete(l.resident, h)
			}
		}
	default:
		clear(l.resident)
		l.cleared++
	}
}

// agrees waits until the listener knows exactly what the rank has cached.
func (l *listener) agrees(t *testing.T, e *Engine, rank int) {
	t.Helper()
	eventually(t, "events describe the cache", func() bool {
		hashes := e.CachedHashes(rank)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(hashes) != len(l.resident) {
			return false
		}
		for _, h := range hashes {
			if l.resident[kvcache.EngineHash(h)] == 0 {
				return false
			}
		}
		return true
	})
}

func (l *listener) snapshot() ([]kvcache.Event, []uint64, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events), slices.Clone(l.seqs), l.malformed
}

func TestEveryEventFormatDecodesToTheSameCache(t *testing.T) {
	t.Parallel()
	for _, format := range []EventFormat{
		EventsVLLM, EventsVLLMArray12, EventsVLLMArray8, EventsVLLMArray7, EventsVLLMArray6, EventsSGLang, EventsSGLangArray,
	} {
		for _, bytes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes %v", format, bytes), func(t *testing.T) {
				t.Parallel()
				hub := follow.NewHub()
				dialect := VLLM
				if format >= EventsSGLang {
					dialect = SGLang
				}
				e := New(t, Config{
					Hub: hub, Speed: fast, Blocks: 100, BlockSize: 4, Events: format, BytesHashes: bytes, Dialect: dialect,
					Adapters: []Adapter{{Name: "tuned"}},
				})
				l := listen(t, hub, e.Endpoints()[0])
				c := client(t)
				// More than the cache holds, so that blocks are evicted.
				for i := range 6 {
					post(t, c, e.URL()+pathChat, user(Text(uint64(i%4), 90), "max_tokens", 20, "cache_salt", "pepper"))
				}
				post(t, c, e.URL()+pathChat, user(Text(9, 30), "model", "tuned"))
				l.agrees(t, e, 0)
				events, seqs, malformed := l.snapshot()
				if malformed != 0 {
					t.Errorf("%d malformed events", malformed)
				}
				for i, seq := range seqs {
					if seq != uint64(i) {
						t.Fatalf("sequence numbers %v", seqs)
					}
				}
				checkStored(t, events, format)
			})
		}
	}
}

// checkStored looks into the stored events: the first block of each prompt is
// salted, adapters are named, tokens fit.
func checkStored(t *testing.T, events []kvcache.Event, format EventFormat) {
	t.Helper()
	salted, adapted, removed := 0, 0, 0
	for _, e := range events {
		switch e.Kind {
		case kvcache.Stored:
			if len(e.Tokens) != len(e.Hashes)*e.BlockSize || e.BlockSize != 4 || e.Tier != kvcache.TierGPU {
				t.Fatalf("event %+v", e)
			}
			if e.Salt == "pepper" && !e.HasParent {
				salted++
			}
			if e.Adapter == "tuned" {
				adapted++
			}
		case kvcache.Removed:
			removed++
		default:
		}
	}
	wantSalt := format == EventsVLLM || format == EventsVLLMArray12 || format == EventsSGLang || format == EventsSGLangArray
	if (salted > 0) != wantSalt || removed == 0 {
		t.Errorf("%d salted and %d removed events in format %d", salted, removed, format)
	}
	wantName := format == EventsVLLM || format == EventsVLLMArray12 || format == EventsVLLMArray8 || format == EventsSGLang
	if (adapted > 0) != wantName {
		t.Errorf("%d events name the adapter in format %d", adapted, format)
	}
}

func TestImagesSaltsAndAdaptersSeparateBlocks(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	e := New(t, Config{Hub: hub, Speed: fast, BlockSize: 4, Adapters: []Adapter{{Name: "a"}, {Name: "b"}}})
	l := listen(t, hub, e.Endpoints()[0])
	c := client(t)
	picture := func(url string) map[string]any {
		return user("", "messages", []any{map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "text", "text": Text(1, 20)},
			map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}},
			map[string]any{"type": "text", "text": "what is it"},
		}}})
	}
	text := Text(1, 40)
	for _, test := range []struct {
		name string
		body map[string]any
		want int
	}{
		{"text", user(text), 0},
		{"text again", user(text), 44},
		{"adapter a", user(text, "model", "a"), 0},
		{"adapter b", user(text, "model", "b"), 0},
		{"adapter b again", user(text, "model", "b"), 44},
		{"empty salt is none", user(text, "cache_salt", ""), 44},
		{"salt", user(text, "cache_salt", "x"), 0},
		{"another salt", user(text, "cache_salt", "y"), 0},
		{"salt again", user(text, "cache_salt", "x"), 44},
		{"image shares the text before it", picture("http://x/1"), 20},
		{"image again", picture("http://x/1"), 92},
		{"another image shares the text before it", picture("http://x/2"), 20},
	} {
		_, _, raw := post(t, c, e.URL()+pathChat, test.body)
		if got := number(t, decode(t, raw), "usage", "prompt_tokens_details", "cached_tokens"); got != test.want {
			t.Errorf("%s: %d tokens cached, want %d", test.name, got, test.want)
		}
	}
	l.agrees(t, e, 0)
	events, _, malformed := l.snapshot()
	pictured := 0
	for _, event := range events {
		for _, extras := range event.Extras {
			pictured += len(extras)
		}
	}
	// Two images of 64 tokens from token 23 on, over 17 blocks each.
	if malformed != 0 || pictured != 34 {
		t.Errorf("%d malformed events, %d blocks with an image, want 0 and 34", malformed, pictured)
	}
}

func TestRanksHaveTheirOwnCachesAndSequences(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	e := New(t, Config{Name: "two", Hub: hub, Speed: fast, Ranks: 2})
	c := client(t)
	var heard [2]*listener
	for rank, ep := range e.Endpoints() {
		if ep.Rank != rank {
			t.Errorf("endpoint %+v of rank %d", ep, rank)
		}
		heard[rank] = listen(t, hub, ep)
	}
	for _, test := range []struct {
		rank string
		want int
	}{{"0", 0}, {"1", 0}, {"1", 112}, {"0", 112}} {
		_, _, raw := post(t, c, e.URL()+pathChat, user(Text(1, 110)), "X-data-parallel-rank", test.rank)
		if got := number(t, decode(t, raw), "usage", "prompt_tokens_details", "cached_tokens"); got != test.want {
			t.Errorf("rank %s: %d tokens cached, want %d", test.rank, got, test.want)
		}
	}
	if status, _, raw := post(t, c, e.URL()+pathChat, user("x"), "X-data-parallel-rank", "2"); status != 400 {
		t.Errorf("rank 2 of 2: %d %s", status, raw)
	}
	for rank, l := range heard {
		l.agrees(t, e, rank)
		if _, seqs, _ := l.snapshot(); len(seqs) == 0 || seqs[0] != 0 {
			t.Errorf("rank %d: sequence %v", rank, seqs)
		}
	}
	if a, b := e.CachedHashes(0), e.CachedHashes(1); slices.Contains(b, a[0]) {
		t.Error("two ranks give a block the same hash")
	}
}

func TestResetAndSleepClear(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	e := New(t, Config{Hub: hub, Speed: fast})
	l := listen(t, hub, e.Endpoints()[0])
	c := client(t)
	cleared := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.cleared }
	for i, path := range []string{"/reset_prefix_cache", "/sleep"} {
		post(t, c, e.URL()+pathChat, user(Text(1, 50)))
		if status, _, raw := post(t, c, e.URL()+path, ""); status != 200 {
			t.Fatalf("%s: %d %s", path, status, raw)
		}
		if path == "/reset_prefix_cache" {
			// vLLM tells nobody before its next step, an engine asleep has none.
			if cleared() != i {
				t.Errorf("%s: published while idle", path)
			}
			post(t, c, e.URL()+pathChat, user(Text(3, 50)))
			eventually(t, "AllBlocksCleared", func() bool { return cleared() == i+1 })
			l.agrees(t, e, 0)
		}
	}
	if _, body := get(t, c, e.URL()+"/is_sleeping"); body != `{"is_sleeping":true}` {
		t.Errorf("asleep: %s", body)
	}
	if status, _, _ := post(t, c, e.URL()+pathChat, user("x")); status != 503 {
		t.Errorf("a sleeping engine answers %d", status)
	}
	post(t, c, e.URL()+"/wake_up", "")
	post(t, c, e.URL()+pathChat, user(Text(1, 50)))
	eventually(t, "the second AllBlocksCleared", func() bool { return cleared() == 2 })
	l.agrees(t, e, 0)
	e.Faults().MuteCleared(true)
	post(t, c, e.URL()+"/reset_prefix_cache", "")
	_, before, _ := l.snapshot()
	post(t, c, e.URL()+pathChat, user(Text(2, 50)))
	eventually(t, "the blocks of the last prompt", func() bool { _, seqs, _ := l.snapshot(); return len(seqs) > len(before) })
	if n := cleared(); n != 2 {
		t.Errorf("%d AllBlocksCleared although they are muted, want the 2 before", n)
	}
}

func TestEventFaults(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	e := New(t, Config{Hub: hub, Speed: fast, OutputTokens: 1})
	l := listen(t, hub, e.Endpoints()[0])
	c := client(t)
	seed := uint64(0)
	prompt := func() { // one event message each
		seed++
		post(t, c, e.URL()+pathChat, user(Text(seed, 50)))
	}
	prompt() // 0
	e.Faults().LoseEvents(1)
	prompt() // 1, lost
	e.Faults().BurnEvents(1)
	prompt() // 2, never was
	e.Faults().CorruptEvents(1)
	prompt() // 3
	e.Faults().DelayEvents(50 * time.Millisecond)
	prompt() // 4
	e.Faults().DelayEvents(0)
	prompt() // 5, still in order
	eventually(t, "the last message", func() bool { _, seqs, _ := l.snapshot(); return len(seqs) == 4 })
	if _, seqs, malformed := l.snapshot(); !slices.Equal(seqs, []uint64{0, 3, 4, 5}) || malformed != 1 {
		t.Errorf("received %v with %d malformed, want 0, 3, 4, 5 with one", seqs, malformed)
	}
	// In order means the content too: publishers number what they are given.
	events, _, _ := l.snapshot()
	for back, prompted := range []uint64{6, 5} {
		got := events[len(events)-1-back].Tokens
		if want := mustChat(t, Text(prompted, 50)); !slices.Equal(got, want[:len(got)]) {
			t.Errorf("message %d from the end is not that of prompt %d", back, prompted)
		}
	}
	var replayed []uint64
	if err := l.conn.Replay(t.Context(), 0, func(m follow.Message) error {
		replayed = append(replayed, m.Seq)
		return nil
	}); err != nil || !slices.Equal(replayed, []uint64{0, 1, 3, 4, 5}) {
		t.Errorf("replay has %v (%v), want what was lost but not what was burnt", replayed, err)
	}
	e.Faults().LoseEventRate(1)
	prompt()
	e.Faults().Clear()
	prompt()
	eventually(t, "the message after", func() bool { _, seqs, _ := l.snapshot(); return len(seqs) == 5 })
	if _, seqs, _ := l.snapshot(); seqs[4] != 7 {
		t.Errorf("sequence %v, want 7 after 6 was lost", seqs)
	}
}
