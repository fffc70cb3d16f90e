package extproc

import (
	"context"
	"net/netip"
)

// LookUp has hosts looked up by fn.
func (s *Server) LookUp(fn func(ctx context.Context, network, host string) ([]netip.Addr, error)) {
	s.resolver.look = fn
}
