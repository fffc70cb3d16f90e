package kvsteerotel_test

import (
	"net/http/httputil"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	kvsteerotel "github.com/kvsteer/kvsteer/integrations/otel"
)

// The code in docs/tracing.md; internal/docscheck looks for it here.
func TestPage(t *testing.T) {
	workers, err := fleet.New(fleet.Options{})
	require.NoError(t, err)
	defer workers.Close()

	tracer := kvsteerotel.New(kvsteerotel.Options{Fleet: workers})                    // github.com/kvsteer/kvsteer/integrations/otel
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(tracer)) // hooks say how requests end
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {},
		Transport:    tracer.Transport(router, kvsteer.TransportOptions{}),
		ErrorHandler: kvsteer.WriteError,
	}
	require.NotNil(t, proxy.Transport)
	require.NoError(t, router.Close())
}
