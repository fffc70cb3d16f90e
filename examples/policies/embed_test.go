package policies

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	"github.com/kvsteer/kvsteer/policy/file"
)

// authenticated stands for what a gateway knows.
func authenticated(*http.Request) (user struct{ tenant, class string }) { return user }

// The body of embed stands in docs/policy.md; TestPageCode compares them.
func embed(workers *fleet.Fleet, classifiers *classify.Set, logger *slog.Logger) error {
	source, err := file.Open("policies", file.Options{
		Check: policy.CheckOptions{Tags: classifiers.Tags()}, Logger: logger,
	})
	if err != nil {
		return err // a *policy.CheckError with file, line and column of all that is wrong
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithPolicy(source), kvsteer.WithClassifiers(classifiers))
	if err != nil {
		return err
	}
	transport := kvsteer.NewTransport(router, kvsteer.TransportOptions{
		// What the gateway knows of a request. Never take it from a client's header unseen.
		Describe: func(r *http.Request, q *kvsteer.Request) {
			user := authenticated(r)
			q.Tenant, q.QoS, q.Pool = user.tenant, user.class, "interactive"
		},
	})
	_ = transport
	if err := router.Close(); err != nil {
		return err
	}
	return source.Close()
}

func TestPageCodeRuns(t *testing.T) {
	text, err := os.ReadFile("private-stays-here.yaml")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("policies", 0o700))
	require.NoError(t, os.WriteFile(filepath.Join("policies", "one.yaml"), text, 0o600))
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	require.NoError(t, err)
	classifiers, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{{Classifier: scanner}}})
	require.NoError(t, err)
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	require.NoError(t, embed(workers, classifiers, slog.New(slog.DiscardHandler)))
	require.NoError(t, workers.Close())
}
