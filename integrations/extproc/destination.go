package extproc

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer"
)

// destination is what Envoy is told of where a request goes.
type destination struct {
	target kvsteer.Target
	list   string            // endpoints, separated by commas
	prefix string            // of the path on the worker
	hosts  map[string]string // of endpoints, as the fleet has them
}

// destination names the target and those of the alternatives that can stand in for it with
// nothing of the request changed: of the same model, rank, path and scheme.
func (s *Server) destination(ctx context.Context, t kvsteer.Target, rest []kvsteer.Target) (destination, error) {
	first, err := s.resolver.endpoint(ctx, t.URL)
	if err != nil {
		return destination{}, err
	}
	d := destination{target: t, prefix: strings.TrimSuffix(t.URL.EscapedPath(), "/"), hosts: map[string]string{first: t.URL.Host}}
	list := []string{first}
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	for i := range rest {
		if len(list) >= s.opts.Endpoints {
			break
		}
		alt := &rest[i]
		if alt.Model != t.Model || alt.URL.Path != t.URL.Path || alt.URL.Scheme != t.URL.Scheme ||
			!maps.EqualFunc(alt.Header, t.Header, slices.Equal) {
			continue
		}
		endpoint, err := s.resolver.endpoint(ctx, alt.URL)
		if err != nil || slices.Contains(list, endpoint) {
			continue
		}
		list = append(list, endpoint)
		d.hosts[endpoint] = alt.URL.Host
	}
	d.list = strings.Join(list, ",")
	return d, nil
}
