package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/file"
)

// outside is the external services that a policy may send requests to. Their file is
// followed.
type outside struct {
	options []kvsteer.Option
	set     *providers.Set // nil without any
	source  *file.Source
}

func newOutside(c *config, logger *slog.Logger) (*outside, error) {
	if c.Outside == "" {
		return &outside{}, nil
	}
	if named(c.Policy) {
		return nil, errors.New("-providers: the policy " + c.Policy + " never uses them; give -policy a file that does")
	}
	set, err := providers.New(nil, providers.Options{Logger: logger})
	if err != nil {
		return nil, err
	}
	source, err := file.Follow(c.Outside, set, file.Options{Logger: logger})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-providers: %w", err), set.Close())
	}
	return &outside{options: []kvsteer.Option{kvsteer.WithProviders(set)}, set: set, source: source}, nil
}

// available reports whether any model of a provider can be asked for now.
func available(set *providers.Set) bool {
	if set == nil {
		return false
	}
	return slices.ContainsFunc(set.All(), func(o *providers.Offer) bool { return o.Standing(time.Now()).Ready })
}

// Close stops following the file.
func (o *outside) Close() error {
	if o.set == nil {
		return nil
	}
	return errors.Join(o.source.Close(), o.set.Close())
}
