package fleet

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOneOfManyWins: of those who looked at the same time one books, also when
// all of them got past the first look at the count and wait for the lock.
func TestOneOfManyWins(t *testing.T) {
	f, err := New(Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	m := newMember(f, &Worker{Name: "w", URL: "http://a"}, "1", func() {})
	const pickers, yields = 4, 100
	for range 200 {
		r := m.rank(0)
		seen := r.picks.Load()
		var won, started atomic.Int32
		var wg sync.WaitGroup
		r.lock()
		for range pickers {
			wg.Go(func() {
				started.Add(1)
				if b, ok := m.TryBegin(0, seen, Work{}); ok {
					won.Add(1)
					b.End()
				}
			})
		}
		for started.Load() < pickers {
			runtime.Gosched()
		}
		for range yields { // lets them reach the lock; if they don't, the test is only weaker
			runtime.Gosched()
		}
		r.unlock()
		wg.Wait()
		require.EqualValues(t, 1, won.Load())
	}
	assert.Zero(t, f.InFlight())
}
