package ledger

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was moved to the spool once is megabytes that are not kept.
func TestNothingIsKeptOfWhatWasMoved(t *testing.T) {
	const n = 2*spoolChunk + 60
	l := &Ledger{opts: Options{Buffer: 100}, slots: make(chan struct{}, n)}
	s, err := openSpool(filepath.Join(t.TempDir(), "spool"), 1<<30)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	k := &keeper{ledger: l, spool: s}
	for i := range n {
		l.slots <- struct{}{}
		l.queue.push(&one(fmt.Sprint(i))[0])
	}
	k.store()
	require.Equal(t, n, s.count)
	require.Empty(t, l.slots)
	require.Zero(t, l.inHand)
	require.Zero(t, cap(k.moving))
	require.Zero(t, s.buf.Cap())
}
