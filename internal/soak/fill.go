package main

import (
	"context"
	"fmt"

	"github.com/kvsteer/kvsteer"
)

// What remembers a bounded number of things is filled before the load begins: else it would
// look as if it grew, for as long as it takes at the rate of the run. It is that what the
// router remembers of sessions (65,536 of them) and of how long the answers to tenants are
// (8,192).
const filling = 70_000

func (s *run) fill(ctx context.Context) error {
	for n := range filling {
		if err := s.rig.once(ctx, fmt.Sprintf("before-%d", n/4), fmt.Sprintf("session-%d", n)); err != nil {
			return fmt.Errorf("request %d before the load: %w", n, err)
		}
	}
	return nil
}

// once sends a short request of a session, without a worker.
func (r *rig) once(ctx context.Context, tenant, session string) error {
	q := &kvsteer.Request{
		API: kvsteer.Completions, Body: []byte(`{"model":"` + base + `","prompt":"hello","max_tokens":1}`),
		Tenant: tenant, Session: session,
	}
	selection, err := r.router.Select(ctx, q)
	if err != nil {
		return err
	}
	selection.FirstToken()
	selection.Done(kvsteer.Usage{Uncached: 1, Output: 1, Known: true})
	return nil
}
