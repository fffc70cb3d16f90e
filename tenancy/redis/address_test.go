package redis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseAddress(t *testing.T) {
	for address, want := range map[string]string{
		"redis:6379": "redis:6379", "redis://u:p@redis": "redis:6379", "rediss://redis:1": "redis:1", "unix:///run/redis": "/run/redis",
	} {
		o, err := ParseAddress(address)
		require.NoError(t, err, address)
		require.Equal(t, want, o.Addr)
		require.Equal(t, strings.HasPrefix(address, "rediss"), o.TLSConfig != nil)
		require.True(t, o.ContextTimeoutEnabled)
	}
	o, err := ParseAddress("redis://gateway:p%2Fw%40d@redis/3")
	require.NoError(t, err)
	require.Equal(t, "gateway", o.Username)
	require.Equal(t, "p/w@d", o.Password)
	require.Equal(t, 3, o.DB)
	for _, address := range []string{
		"http://:hunter2@redis:6379", "redis://:hunter2@redis:six", "redis://:hunter2@redis:6379/?db=hunter2", "a b",
	} {
		_, err := ParseAddress(address)
		require.ErrorIs(t, err, ErrAddress, address)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
