// Package debug is a console for people: what a Router sees and does, live in a browser.
//
//	var seen debug.Recorder
//	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(&seen))
//	...
//	console, err := debug.New(router, debug.Options{Recorder: &seen})
//	...
//	mux := http.NewServeMux()
//	mux.Handle("/debug/kvsteer/", http.StripPrefix("/debug/kvsteer", console))
//	aside := &http.Server{Addr: "127.0.0.1:6060", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
//
// It shows the workers with their load, cache and trust, which prefixes lie where, the
// latest decisions and what came of them, the policy in force and what policies in shadow
// mode would have done, and whom the router turned away. It changes nothing.
//
// Without [Options.Authenticate] it serves nobody but browsers on the same machine. Serve it
// on a port of its own, not on that of the gateway.
// It shows names of workers, models, tenants, rules and tags, addresses of workers, and
// figures; never prompts, tokens or credentials.
//
// A Recorder costs well under a microsecond for each decision. Everything else is done
// only while somebody looks, once a second for all who do.
package debug
