package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// clock is the time as one part of the world sees it. It has no monotonic reading, so that
// a jump is one.
type clock struct{ skew, most atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.skew.Load())) }

// jump is called by one goroutine at a time.
func (c *clock) jump(d time.Duration) { c.most.Store(max(c.most.Load(), c.skew.Add(int64(d)))) }

// pass goes to a time that is later by d than any that the clock has shown.
func (c *clock) pass(d time.Duration) { c.jump(d + time.Duration(c.most.Load()-c.skew.Load())) }

// journal keeps what is written, for many writers.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// line returns the first line that holds a text, "" if none does.
func (j *journal) line(text string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.buf.String()) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// errDown is what everything fails with that is made to fail.
var errDown = errors.New("chaos: it is down")

// vault is a sink that may fail, before or after it has kept some of the records.
type vault struct {
	mode atomic.Int32

	mu      sync.Mutex
	seen    ledger.Seen
	records []ledger.Record
}

// Modes of a vault.
const (
	vaultOpen int32 = iota
	vaultFails
	vaultHalf // keeps half of each batch and fails
	vaultModes
)

// Write implements ledger.Sink.
func (v *vault) Write(_ context.Context, records []ledger.Record) error {
	var err error
	switch v.mode.Load() {
	case vaultFails:
		return errDown
	case vaultHalf:
		records, err = records[:len(records)/2], errDown
	default:
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range records {
		if v.seen.First(&records[i]) {
			v.records = append(v.records, records[i])
		}
	}
	return err
}

func (v *vault) all() []ledger.Record {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]ledger.Record{}, v.records...)
}

// tokenizers is the way to the engines' tokenizers, which may be broken.
type tokenizers struct {
	base *http.Transport
	mode atomic.Int32
}

// Modes of tokenizers.
const (
	tokenizerWorks int32 = iota
	tokenizerRefuses
	tokenizerFails
	tokenizerTalks // no JSON
	tokenizerHangs
	tokenizerModes
)

// RoundTrip implements http.RoundTripper.
func (t *tokenizers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, text := http.StatusOK, "Good morning!"
	switch t.mode.Load() {
	case tokenizerRefuses:
		closeBody(r)
		return nil, errDown
	case tokenizerFails:
		status, text = http.StatusInternalServerError, `{"error":{"message":"down"}}`
	case tokenizerTalks:
	case tokenizerHangs:
		closeBody(r)
		<-r.Context().Done()
		return nil, r.Context().Err()
	default:
		return t.base.RoundTrip(r)
	}
	closeBody(r)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // it is in memory
	}
}

// inventory is a Discoverer whose source changes, fails and says what is wrong.
type inventory struct {
	mu     sync.Mutex
	list   []fleet.Worker
	state  int // what Discover does with it, see below
	change chan struct{}
}

// States of an inventory.
const (
	inventoryTells   = iota
	inventoryFails   // Discover returns an error
	inventoryGarbles // a list that is refused, whoever is on it
	inventoryStates
)

func newInventory() *inventory { return &inventory{change: make(chan struct{})} }

// put sets the list and how it is told.
func (v *inventory) put(list []fleet.Worker, state int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list, v.state = list, state
	close(v.change)
	v.change = make(chan struct{})
}

// Discover implements fleet.Discoverer.
func (v *inventory) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	for {
		v.mu.Lock()
		list, state, change := v.list, v.state, v.change
		v.mu.Unlock()
		switch state {
		case inventoryFails:
			return errDown
		case inventoryGarbles:
			if err := set([]fleet.Worker{list[0], list[0]}); err == nil {
				return errors.New("chaos: a list with a worker twice was taken")
			}
		default:
			if err := set(list); err != nil {
				return err
			}
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil
		}
	}
}
