package main

import (
	"fmt"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/fleet/httpjson"
)

// discoverer follows the workers. Others go here as well, such as fleet/dns and
// fleet/kubernetes, which are modules of their own, or yours: docs/discovery.md.
func (s *source) discoverer() (fleet.Discoverer, error) {
	if s.URL != "" {
		return &httpjson.Discoverer{URL: s.URL}, nil
	}
	// Later a wrong file changes nothing and is logged; at the start it ends us.
	if _, err := file.Load(s.File); err != nil {
		return nil, fmt.Errorf("-fleet: %w", err)
	}
	return &file.Discoverer{Path: s.File}, nil
}
