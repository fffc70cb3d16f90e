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

// Peers that hang, before their answer or in it, hold up New no longer than is said, all
// together.
func TestSnapshotsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := defaultOptions()
		o.snapshots = []SnapshotSource{
			func(ctx context.Context) (io.ReadCloser, error) {
				slow, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				<-slow.Done()
				return nil, slow.Err()
			},
			func(ctx context.Context) (io.ReadCloser, error) {
				return io.NopCloser(never(func() error {
					<-ctx.Done()
					return ctx.Err()
				})), nil
			},
			func(context.Context) (io.ReadCloser, error) {
				require.Fail(t, "there is no time left for it")
				return nil, io.EOF
			},
		}
		began := time.Now()
		require.Nil(t, o.takeSnapshot(DefaultSnapshotWait))
		require.Equal(t, DefaultSnapshotWait, time.Since(began))
	})
}
