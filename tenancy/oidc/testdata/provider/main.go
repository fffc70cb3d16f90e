// Command provider is an OpenID provider on this machine, made of the parts of
// zitadel/oidc, whose keys are new each time it starts. It ends with its standard input.
package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	address := flag.String("listen", "127.0.0.1:0", "where to listen")
	callback := flag.String("callback", "", "where the client web is told its codes")
	flag.Parse()
	l, err := net.Listen("tcp", *address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	issuer := "http://" + l.Addr().String() + "/"
	storage.RegisterClients(storage.WebClient("web", "secret", *callback))
	handler := exampleop.SetupServer(issuer, storage.NewStorage(storage.NewUserStore(issuer)), slog.New(slog.DiscardHandler), false)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	fmt.Println(issuer)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
