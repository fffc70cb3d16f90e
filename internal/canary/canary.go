// Package canary is for tests that what clients and operators entrust to us (prompts, keys,
// passwords) comes out nowhere: in no log at any level, no error however it is printed or
// unwrapped, no metric, record or page.
//
// A test puts [Canary.In] into each field, sends that through every way to fail, and shows
// the Canary everything that came out.
package canary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// word is in every canary. It is of letters and digits, so that no escaping hides it.
const word = "c4n4ry7f3a"

// Canary watches what comes out. It is safe for concurrent use.
type Canary struct {
	t  testing.TB
	mu sync.Mutex
	// seen are the leaks that were told, so that one is told once.
	seen map[string]bool
	log  bytes.Buffer
}

// New returns a Canary for t, which looks through its log at the end.
func New(t testing.TB) *Canary {
	t.Helper()
	c := &Canary{t: t, seen: map[string]bool{}}
	t.Cleanup(func() {
		c.mu.Lock()
		logged := c.log.String()
		c.mu.Unlock()
		for line := range strings.Lines(logged) {
			c.Text("log", line)
		}
	})
	return c
}

// In returns a canary for a field, by whose name a leak is told.
func (c *Canary) In(field string) string { return word + "x" + field + "x" }

// Logger logs to the Canary, at every level.
func (c *Canary) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(c, &slog.HandlerOptions{Level: slog.Level(-1000), AddSource: true}))
}

// Write implements io.Writer: for logs of others.
func (c *Canary) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

// Lines is how many lines were logged: a test that means to see some can tell that it did.
func (c *Canary) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Count(c.log.Bytes(), []byte("\n"))
}

// Text fails the test if a canary is in text, which came out at where.
func (c *Canary) Text(where, text string) {
	c.t.Helper()
	at := strings.Index(strings.ToLower(text), word)
	if at < 0 {
		return
	}
	_, field, _ := strings.Cut(text[at:], "x")
	field, _, _ = strings.Cut(field, "x")
	c.mu.Lock()
	told := c.seen[where+field]
	c.seen[where+field] = true
	c.mu.Unlock()
	if !told {
		const around = 200
		c.t.Errorf("what was in %q came out in %s: %s", field, where, text[max(0, at-around):min(len(text), at+around)])
	}
}

// JSON fails the test if a canary is in v, as JSON or as Go prints it.
func (c *Canary) JSON(where string, v any) {
	c.t.Helper()
	if b, err := json.Marshal(v); err == nil { // not everything can be
		c.Text(where, string(b))
	}
	c.Text(where, fmt.Sprintf("%v %+v %#v", v, v, v))
}

// Error fails the test if a canary is in err or any error that it wraps, however printed.
func (c *Canary) Error(where string, err error) {
	c.t.Helper()
	if err == nil {
		return
	}
	c.Text(where, fmt.Sprintf("%v %+v %#v %q", err, err, err, err))
	switch wraps := err.(type) { //nolint:errorlint // each is looked at
	case interface{ Unwrap() []error }:
		for _, one := range wraps.Unwrap() {
			c.Error(where, one)
		}
	default:
		c.Error(where, errors.Unwrap(err))
	}
}
