package dns_test

import (
	"context"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/dns"
)

// TestHold: a server that gives another part of the records each time.
func TestHold(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", addressesOf("10.0.0.1", "10.0.0.2")...)
	d := s.discoverer()
	d.Hold = time.Minute
	c := newScene(t, d)
	c.wait(t, "two", func() bool { return c.members() == 2 })
	s.put("workers.test.", addressesOf("10.0.0.2", "10.0.0.3")...)
	c.wait(t, "three", func() bool { return c.members() == 3 })
	c.pass(50 * time.Second)
	s.put("workers.test.", addressesOf("10.0.0.3", "10.0.0.4")...)
	c.wait(t, "four", func() bool { return c.members() == 4 })
	c.pass(20 * time.Second)
	c.wait(t, "the first one has left", func() bool { return c.members() < 4 && c.Snapshot().Member("10.0.0.1:8000") == nil })
	assert.NotNil(t, c.Snapshot().Member("10.0.0.4:8000"))
}

// TestHoldIsShort: it counts from the first answer without the record, however
// long the answer before it held.
func TestHoldIsShort(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	d := &dns.Discoverer{Hold: 30 * time.Second, Now: func() time.Time { return now }}
	a, b := dns.Record{Addr: netip.MustParseAddrPort("10.0.0.1:1")}, dns.Record{Addr: netip.MustParseAddrPort("10.0.0.2:1")}
	step := func(pass time.Duration, answer, want []dns.Record, most time.Duration) {
		t.Helper()
		now = now.Add(pass)
		kept, expiry := d.Keep(answer)
		assert.ElementsMatch(t, want, kept)
		assert.Equal(t, most, expiry)
	}
	one, both := []dns.Record{b}, []dns.Record{a, b}
	step(0, both, both, math.MaxInt64)
	step(5*time.Minute, one, both, 30*time.Second)
	step(20*time.Second, one, both, 10*time.Second)
	step(time.Second, both, both, math.MaxInt64)
	step(5*time.Minute, one, both, 30*time.Second)
	step(20*time.Second, nil, both, 10*time.Second)
	step(10*time.Second, nil, one, 20*time.Second)
	step(20*time.Second, nil, nil, math.MaxInt64)
}

// TestHoldEnds: the pause is not longer than the record is held.
func TestHoldEnds(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", addressesOf("10.0.0.1", "10.0.0.2")...)
	d := s.discoverer()
	d.Hold, d.MaxInterval = 50*time.Millisecond, time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var lists [][]fleet.Worker
	require.NoError(t, d.Discover(ctx, func(list []fleet.Worker) error {
		lists = append(lists, list)
		if s.put("workers.test.", address("10.0.0.2", 3600)); len(lists) > 1 {
			cancel()
		}
		return nil
	}))
	require.Len(t, lists, 2)
	assert.Len(t, lists[0], 2)
	assert.Len(t, lists[1], 1)
}
