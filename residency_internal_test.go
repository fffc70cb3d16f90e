package kvsteer

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// filed is a local source with files for every model.
type filed struct{ prompt.Source }

func (filed) Kind() prompt.SourceKind { return prompt.SourceLocal }

func (filed) Assets(string) string { return "files-1" }

func (filed) Encode(context.Context, *prompt.Request) (prompt.Encoding, error) {
	return prompt.Encoding{}, prompt.ErrNotApplicable
}

// What a worker serves becomes known between the Snapshot that the router begins
// with and its subscription: the Prover is told all the same, or it would never
// judge the model and let wrong ids through for good.
func TestModelsKnownBeforeWatch(t *testing.T) {
	t.Parallel()
	known := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
		case "/v1/models":
			select {
			case <-known:
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer engine.Close()
	f, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(fleet.Worker{Name: "w0", URL: engine.URL}), ProbeTimeout: 30 * time.Second,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.Eventually(t, func() bool { return len(f.Snapshot().Members()) == 1 }, 30*time.Second, time.Millisecond)

	prover := prompt.NewProver(filed{}, prompt.ProverOptions{})
	defer func() { require.NoError(t, prover.Close()) }()
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{prover}})
	defer func() { require.NoError(t, encoder.Close()) }()
	told := newProofs(encoder)
	r := newResidency(kvcache.NewIndex(kvcache.Options{}), &options{}, &told)
	r.add(f.Snapshot().Members()[0]) // as watch begins
	require.Empty(t, prover.Status())
	close(known)
	require.Eventually(t, func() bool { return f.Snapshot().Members()[0].Serves("m") }, 30*time.Second, time.Millisecond)
	r.watch(f)
	defer r.close()
	require.Len(t, prover.Status(), 1)
}
