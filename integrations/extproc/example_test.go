package extproc_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/integrations/extproc"
)

// A picker for Envoy, with its health service. Serve returns when ctx has ended and the
// requests under way have, too.
func ExampleNew() {
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "gpu-0", URL: "http://127.0.0.1:1"})})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close()
	router, err := kvsteer.New(kvsteer.WithFleet(workers))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close() // before the fleet

	server := extproc.New(router, extproc.Options{
		Describe: func(r *http.Request, q *kvsteer.Request) { q.Tenant = r.Header.Get("X-Tenant") },
		Ready:    func() bool { return workers.Snapshot().Routable() > 0 },
	})
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	stop() // in a program: when the process is told to end
	fmt.Println(server.Serve(ctx, listener, extproc.ServeOptions{Notice: time.Millisecond, Grace: time.Second}))
	// Output: <nil>
}
