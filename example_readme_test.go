package kvsteer_test

import (
	"net/http/httputil"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// The lines between the markers stand in README.md; TestReadmeExampleIsThisCode
// compares them.
func embed() error {
	// README begin
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static(
		fleet.Worker{Name: "gpu-0", URL: "http://10.0.0.7:8000"},
		fleet.Worker{Name: "gpu-1", URL: "http://10.0.0.8:8000"},
	)})
	if err != nil {
		return err
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers))
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {}, // the Transport sets the destination
		Transport:    kvsteer.NewTransport(router, kvsteer.TransportOptions{}),
		ErrorHandler: kvsteer.WriteError,
	}
	// README end
	_ = proxy
	// README begin
	worker := fleet.Worker{
		Name: "gpu-0", URL: "http://10.0.0.7:8000",
		// follow is github.com/kvsteer/kvsteer/kvcache/follow; one endpoint per data-parallel rank.
		Events: []follow.Endpoint{{Events: "tcp://10.0.0.7:5557", Replay: "tcp://10.0.0.7:5558"}},
	}
	events := kvsteer.WithEvents(&zmtp.Transport{}) // github.com/kvsteer/kvsteer/kvcache/zmtp
	// README end
	_, _ = worker, events
	if err := router.Close(); err != nil {
		return err
	}
	return workers.Close()
}

func TestReadmeExampleIsThisCode(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("example_readme_test.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := strings.Split(string(source), "\n\t// README begin\n")[1:]
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		code, _, ok := strings.Cut(block, "\t// README end\n")
		require.True(t, ok)
		var plain strings.Builder
		for line := range strings.Lines(code) {
			plain.WriteString(strings.TrimPrefix(line, "\t"))
		}
		require.Contains(t, string(readme), "```go\n"+plain.String()+"```", "README.md and this file differ")
	}
	require.NoError(t, embed())
}
