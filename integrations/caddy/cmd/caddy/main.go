// Command caddy is Caddy with its standard modules and KVSteer's: what xcaddy would
// build, for a checkout and for our own tests.
//
//	go build ./cmd/caddy
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/kvsteer/kvsteer/integrations/caddy"
)

func main() { caddycmd.Main() }
