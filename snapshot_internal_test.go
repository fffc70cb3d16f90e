package kvsteer

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// never is a body that ends with its context, without a byte.
type never func() error

func (n never) Read([]byte) (int, error) { return 0, n() }

// Sources that hang, before their answer or in it, hold up New no longer than is said, all
// together, and leave time to those behind them.
func TestSnapshotsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := defaultOptions()
		asked := false
		o.snapshots = []SnapshotSource{
			func(ctx context.Context) (io.ReadCloser, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			func(context.Context) (io.ReadCloser, error) {
				asked = true
				return nil, io.EOF
			},
			func(ctx context.Context) (io.ReadCloser, error) {
				return io.NopCloser(never(func() error {
					<-ctx.Done()
					return ctx.Err()
				})), nil
			},
		}
		began := time.Now()
		require.Nil(t, o.takeSnapshot(DefaultSnapshotWait))
		require.True(t, asked, "the one that hangs has left time to the next")
		require.Equal(t, DefaultSnapshotWait, time.Since(began))
	})
}
