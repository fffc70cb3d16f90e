package redis

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer/internal/leak"
)

// quiet: the client prints each connection that fails, on a logger of its own.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{})
	leak.Main(m)
}
