package kvcache_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer/kvcache"
)

// That the figure is right after every operation is Check's to say, which every
// random test calls.
func TestResident(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	x := kvcache.NewIndex(kvcache.Options{Now: func() time.Time { return now }})
	o, other := x.Join("a"), x.Join("b")
	assert.Zero(t, x.Resident(o))
	assert.Zero(t, x.Resident(kvcache.Owner{}))

	keys := make([]kvcache.Key, 700) // more than one run
	for i := range keys {
		keys[i] = kvcache.Key(i)*0x9e3779b97f4a7c15 + 1
	}
	x.Book(o, keys, time.Second)
	assert.Equal(t, len(keys), x.Resident(o))
	assert.Zero(t, x.Resident(other))

	// More owners replace the table that readers see.
	for range 20 {
		x.Join("more")
	}
	assert.Equal(t, len(keys), x.Resident(o))

	now = now.Add(2 * time.Second)
	x.Match(keys[:1], nil, nil)
	assert.Zero(t, x.Resident(o), "bookings ended")

	x.Book(o, keys[:9], time.Second)
	x.Clear(o)
	assert.Zero(t, x.Resident(o))
	x.Book(o, keys[:9], time.Second)
	x.Leave(o)
	assert.Zero(t, x.Resident(o))
	assert.Zero(t, x.Resident(x.Join("successor")))

	x.Book(other, keys, time.Second)
	assert.Zero(t, testing.AllocsPerRun(100, func() { x.Resident(other) }))
}
