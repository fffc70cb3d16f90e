package debug_test

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/debug"
	"github.com/kvsteer/kvsteer/fleet"
)

// A gateway with a console on a port of its own, which others can't reach.
func Example() {
	workers, err := fleet.New(fleet.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var seen debug.Recorder
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(&seen))
	if err != nil {
		fmt.Println(err)
		return
	}
	console, err := debug.New(router, debug.Options{Recorder: &seen})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/kvsteer/", http.StripPrefix("/debug/kvsteer", console))
	aside := &http.Server{Addr: "127.0.0.1:6060", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	aside.RegisterOnShutdown(func() { _ = console.Close() })
	// and aside.ListenAndServe: a server of its own, not that which clients reach

	// When the gateway ends: the console, the router, the fleet.
	fmt.Println(errors.Join(aside.Close(), console.Close(), router.Close(), workers.Close()))
	// Output: <nil>
}

// A console that others may reach asks for a password.
func ExampleBasicAuth() {
	workers, _ := fleet.New(fleet.Options{})
	defer workers.Close()
	router, _ := kvsteer.New(kvsteer.WithFleet(workers))
	defer router.Close()
	console, err := debug.New(router, debug.Options{Authenticate: debug.BasicAuth("ops", "a long secret")})
	fmt.Println(err)
	_ = console.Close()
	// Output: <nil>
}
