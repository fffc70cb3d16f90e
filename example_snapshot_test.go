package kvsteer_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
)

// warmGateway starts a router with what a peer knows of the workers' caches, or else with
// what a file says, and serves its own knowledge to peers.
func warmGateway(workers *fleet.Fleet, peer *http.Client, authorize func(http.ResponseWriter, *http.Request) bool, path string) error {
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithSnapshot(
		kvsteer.SnapshotFrom("http://gateway.internal:9090/snapshot", peer), // any peer that is up
		kvsteer.SnapshotFile(path),
	))
	if err != nil {
		return err
	}
	operations := http.NewServeMux() // not where clients send requests
	operations.Handle("GET /snapshot", kvsteer.SnapshotHandler(router, authorize))

	// ... serve, and when the gateway ends:
	if err := router.SaveSnapshot(path); err != nil {
		return err
	}
	return router.Close()
}

func ExampleWithSnapshot() {
	dir, err := os.MkdirTemp("", "kvsteer")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	if err != nil {
		panic(err)
	}
	defer func() { _ = workers.Close() }()
	nobody := func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return false
	}
	// Nobody answers and there is no file: it starts cold.
	client := &http.Client{Transport: refusing{}}
	fmt.Println(warmGateway(workers, client, nobody, filepath.Join(dir, "snapshot")))
	// Output: <nil>
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }
