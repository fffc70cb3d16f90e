package kvsteercaddy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
)

// turnedDown is a hook that keeps refusals.
type turnedDown struct{ told []*kvsteer.Refusal }

func (h *turnedDown) OnRefusal(f *kvsteer.Refusal) { h.told = append(h.told, f) }

// What the handler turns down without asking the router, the router's hooks are told of.
func TestARequestWithoutPoolIsToldToHooks(t *testing.T) {
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	hook := &turnedDown{}
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(hook))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, router.Close())
		require.NoError(t, workers.Close())
	})
	h := &Handler{Options: Options{Pool: "{vars.pool}"}, logger: zap.NewNop(), room: &routerRoom{router: router}}
	h.transport = kvsteer.NewTransport(router, kvsteer.TransportOptions{})
	for _, path := range []string{"/v1/chat/completions", "/tokenize"} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")).WithContext(context.WithValue(t.Context(), caddy.ReplacerCtxKey, caddy.NewReplacer()))
		w := httptest.NewRecorder()
		require.NoError(t, h.ServeHTTP(w, r, nil))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
	}
	require.Len(t, hook.told, 2)
	require.Equal(t, "chat completions", hook.told[0].API)
	require.Empty(t, hook.told[1].API)
	require.Equal(t, kvsteer.CodeNoCandidates, hook.told[1].Err.Code)
}
