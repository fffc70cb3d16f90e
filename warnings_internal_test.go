package kvsteer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWarningsAreSparing(t *testing.T) {
	t.Parallel()
	var w warnings
	start := time.Unix(1_000_000, 0)
	told, untold := 0, 0
	for i := range 3600 { // an hour
		n, tell := w.due("a", start.Add(time.Duration(i)*time.Second))
		if tell {
			told++
			untold += n
		}
	}
	require.Equal(t, 60, told)
	require.Equal(t, 3600-60-59, untold, "but for those after the last word")
	_, tell := w.due("b", start)
	require.True(t, tell, "another trouble")
	for i := range 10 * maxWarned {
		w.due(fmt.Sprint(i), start)
	}
	require.LessOrEqual(t, len(w.told), maxWarned)
}
