package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/simulate"
	"github.com/kvsteer/kvsteer/fleet"
)

// fleet is what -fleet describes, or the other flags.
func (o *simulation) fleet() (*simulate.Fleet, error) {
	if o.fleetFile != "" {
		f, err := os.Open(o.fleetFile)
		if err != nil {
			return nil, fmt.Errorf("the fleet: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		return simulate.ReadFleet(f)
	}
	s := simulate.WorkerSpec{
		PrefillRate: o.prefillRate, CacheTokens: o.cacheTokens, BlockSize: o.blockSize,
		TokenBudget: o.budget, MaxRunning: o.maxRunning,
	}
	whole := o.workers - o.prefills - o.decodes
	if o.workers < 1 || o.prefills < 0 || o.decodes < 0 || whole < 0 {
		return nil, errors.New("-workers must be at least 1, and -prefill-workers and -decode-workers no more together")
	}
	var specs []simulate.WorkerSpec
	for _, part := range []struct {
		role  fleet.Role
		count int
	}{{fleet.RoleWhole, whole}, {fleet.RolePrefill, o.prefills}, {fleet.RoleDecode, o.decodes}} {
		if s.Role, s.Count = part.role, part.count; s.Count > 0 {
			specs = append(specs, s)
		}
	}
	if o.slow == "" {
		return &simulate.Fleet{Workers: specs}, nil
	}
	factor, err := strconv.ParseFloat(o.slow, 64)
	if err != nil || factor <= 0 {
		return nil, fmt.Errorf("-slow takes a factor above 0, not %q", o.slow)
	}
	lame := specs[0]
	lame.Count, lame.Speed = 1, 1/factor
	if specs[0].Count--; specs[0].Count == 0 {
		specs = specs[1:]
	}
	return &simulate.Fleet{Workers: append([]simulate.WorkerSpec{lame}, specs...)}, nil
}

// newRule makes a rule for a fleet.
func newRule(workers []simulate.WorkerSpec, name string, seed uint64) (simulate.Rule, error) {
	if simulate.Split(workers) {
		return simulate.NewApart(name, seed)
	}
	return simulate.NewRule(name, seed)
}

// names are the rules to compare: by default all that know what the fleet is like.
func (o *simulation) names(f *simulate.Fleet) ([]string, error) {
	if o.rules == "" {
		fails := o.failures > 0 || simulate.Fails(f.Workers)
		return slices.DeleteFunc(simulate.RuleNames(), func(name string) bool {
			_, err := o.replicas.rules(f.Workers, name, o.seed)
			return err != nil || fails && strings.HasPrefix(name, "bound")
		}), nil
	}
	names := strings.Split(o.rules, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
		if _, err := o.replicas.rules(f.Workers, names[i], o.seed); err != nil {
			return nil, err
		}
	}
	return names, nil
}
