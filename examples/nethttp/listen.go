package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// listen opens the address, and reads the certificate if there is one.
func listen(ctx context.Context, c *config) (l net.Listener, secure *tls.Config, err error) {
	if secure, err = c.TLS.config(); err != nil {
		return nil, nil, err
	}
	if l, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Listen); err != nil {
		return nil, nil, fmt.Errorf("-listen: %w", err)
	}
	return l, secure, nil
}

// config is nil where plain HTTP is served.
func (t *tlsConfig) config() (*tls.Config, error) {
	if t.Cert == "" && t.Key == "" {
		if t.MinVersion != "" { // whoever gave one wants TLS
			return nil, errors.New("-tls-min: TLS needs a certificate; give -cert and -key as well")
		}
		return nil, nil //nolint:nilnil // none is needed
	}
	versions := map[string]uint16{"": tls.VersionTLS12, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}
	oldest, known := versions[t.MinVersion]
	switch {
	case !known:
		return nil, fmt.Errorf("-tls-min: %q is none of 1.2 and 1.3", t.MinVersion)
	case t.Cert == "" || t.Key == "":
		return nil, errors.New("-cert and -key: give both, or none for plain HTTP")
	}
	pair := &certificate{cert: t.Cert, key: t.Key}
	if _, err := pair.get(nil); err != nil {
		return nil, fmt.Errorf("-cert and -key: %w", err)
	}
	return &tls.Config{MinVersion: oldest, GetCertificate: pair.get}, nil
}

// certificate is read anew when its file has changed, so that it can be renewed while
// streams go on. A new one that is wrong leaves the old one in force.
type certificate struct {
	cert, key string

	mu   sync.Mutex
	last *tls.Certificate
	of   time.Time
}

func (p *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.cert)
	if err == nil && (p.last == nil || !info.ModTime().Equal(p.of)) {
		var next tls.Certificate
		if next, err = tls.LoadX509KeyPair(p.cert, p.key); err == nil {
			p.last, p.of = &next, info.ModTime()
		}
	}
	if p.last != nil {
		return p.last, nil
	}
	return nil, err
}
