package quota

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tenants that come and go don't make it grow, however many there were.
func TestOutputsDontGrow(t *testing.T) {
	var o Outputs
	n := 0
	held := func(tenants int) int {
		for range tenants {
			o.Learn(fmt.Sprintf("tenant-%d", n), "m", 1)
			n++
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := held(2 * maxPairs)
	require.Less(t, held(20*maxPairs), before+256<<10)
	require.Len(t, o.pairs, maxPairs)
}
