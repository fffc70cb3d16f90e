package trtllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

const address = "http://engine:8000"

// engine is the other end of a Transport's Client: an event buffer, and what can
// happen to the answers. It works within a testing/synctest bubble.
type engine struct {
	mu      sync.Mutex
	next    map[int]uint64 // by rank, -1 for none
	buffer  []string
	polls   int
	methods []string

	allow string        // the method that is not answered with 405; "" is any
	fault func() fault  // asked once a poll; nil for none
	delay time.Duration // before each answer
	v2    bool          // hashes are digests in hex, as the second cache manager has them
}

// fault is what happens to one poll.
type fault struct {
	refuse bool // no connection; nothing is taken out of the buffer
	status int  // an answer of that status, with the buffer emptied
	keep   int  // > 0: only so many bytes of the answer arrive
	reset  bool // the buffer is emptied and nothing arrives
	body   string
}

func newEngine() *engine { return &engine{next: make(map[int]uint64)} }

// add puts events into the buffer; %ID% becomes the next id.
func (e *engine) add(events ...string) { e.addTo(-1, events...) }

func (e *engine) addTo(rank int, events ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.append(rank, events...)
}

// miss puts events into the buffer and loses the oldest n of all, before anybody can
// fetch them.
func (e *engine) miss(n int, events ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.append(-1, events...)
	e.buffer = e.buffer[n:]
}

// append is addTo for who holds the lock.
func (e *engine) append(rank int, events ...string) {
	for _, data := range events {
		text := fmt.Sprintf(`{"event_id":%d,"data":%s,"window_size":100`, e.next[rank], data)
		if rank >= 0 {
			text += fmt.Sprintf(`,"attention_dp_rank":%d`, rank)
		}
		e.next[rank]++
		e.buffer = append(e.buffer, e.hashed(text+"}"))
	}
}

// put adds an event as it is.
func (e *engine) put(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buffer = append(e.buffer, e.hashed(text))
}

var (
	hashFields = regexp.MustCompile(`"(?:block_hash|parent_hash)":\d+|"block_hashes":\[[^]]*\]`)
	integers   = regexp.MustCompile(`\d+`)
)

// hashed is an event with its hashes as the engine's cache manager writes them.
func (e *engine) hashed(text string) string {
	if !e.v2 {
		return text
	}
	return hashFields.ReplaceAllStringFunc(text, func(field string) string {
		return integers.ReplaceAllStringFunc(field, func(n string) string {
			hash, err := strconv.ParseUint(n, 10, 64)
			if err != nil {
				panic(err)
			}
			return fmt.Sprintf(`"%064x"`, hash)
		})
	})
}

// eachManager runs a test with the hashes of both of the engine's cache managers.
func eachManager(t *testing.T, test func(t *testing.T, v2 bool)) {
	t.Helper()
	for _, v2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "V1", true: "V2"}[v2], func(t *testing.T) { test(t, v2) })
	}
}

// drop loses the oldest n events, as a full buffer or another consumer does.
func (e *engine) drop(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buffer = e.buffer[n:]
}

// restart is another process.
func (e *engine) restart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buffer, e.next = nil, make(map[int]uint64)
}

func (e *engine) set(f func() fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault = f
}

func (e *engine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.polls
}

// once makes a fault happen to the next poll only.
func (e *engine) once(f fault) {
	done := false
	e.set(func() fault {
		if done {
			return fault{}
		}
		done = true
		return f
	})
}

func (e *engine) client() *http.Client { return &http.Client{Transport: e} }

func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	delay := e.delay
	e.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.polls++
	e.methods = append(e.methods, r.Method)
	resp := func(status int, body string) *http.Response {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}
	}
	var f fault
	if e.fault != nil {
		f = e.fault()
	}
	switch {
	case f.refuse:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
	case e.allow != "" && r.Method != e.allow:
		return resp(http.StatusMethodNotAllowed, `{"detail":"Method Not Allowed"}`), nil
	case r.URL.Path != Path:
		return resp(http.StatusNotFound, `{"detail":"Not Found"}`), nil
	}
	body := "[" + strings.Join(e.buffer, ",") + "]"
	e.buffer = nil
	switch {
	case f.body != "":
		return resp(http.StatusOK, f.body), nil
	case f.status != 0:
		return resp(f.status, "sorry"), nil
	case f.reset:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: errors.New("reset")}
	case f.keep > 0:
		cut := resp(http.StatusOK, body)
		cut.Body = io.NopCloser(io.MultiReader(strings.NewReader(body[:f.keep]), brokenReader{}))
		return cut, nil
	default:
		return resp(http.StatusOK, body), nil
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

const created = `{"type":"created","num_blocks_per_cache_level":[1000,0]}`

// stored is the data of a stored event of 4-token blocks; block n holds n times
// ten and the three after.
func stored(parent string, blocks ...int) string {
	var list []string
	for _, b := range blocks {
		var tokens []string
		for i := range 4 {
			tokens = append(tokens, fmt.Sprintf(`{"type":"unique_token","token_id":%d,"token_extra_id":0}`, 10*b+i))
		}
		list = append(list, fmt.Sprintf(`{"type":"stored_block","block_hash":%d,"tokens":[%s],"cache_level":0,"priority":35}`,
			hashOf(b), strings.Join(tokens, ",")))
	}
	return fmt.Sprintf(`{"type":"stored","parent_hash":%s,"blocks":[%s]}`, parent, strings.Join(list, ","))
}

// hashOf returns hashes that no float64 holds.
func hashOf(block int) uint64 { return 1<<63 + uint64(block)*2 + 1 }

func removed(blocks ...int) string {
	var list []string
	for _, b := range blocks {
		list = append(list, fmt.Sprint(hashOf(b)))
	}
	return fmt.Sprintf(`{"type":"removed","block_hashes":[%s]}`, strings.Join(list, ","))
}

func dial(t *testing.T, tr *Transport, rank int) follow.Conn {
	t.Helper()
	c, err := tr.Dial(t.Context(), follow.Endpoint{Events: address, Rank: rank})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// recv receives within a virtual minute.
func recv(t *testing.T, c follow.Conn) (follow.Message, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return c.Recv(ctx)
}

// recvIDs receives n messages and returns their numbers.
func recvIDs(t *testing.T, c follow.Conn, n int) []uint64 {
	t.Helper()
	var ids []uint64
	for range n {
		m, err := recv(t, c)
		require.NoError(t, err)
		ids = append(ids, m.Seq)
	}
	return ids
}
