package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy/file"
	"github.com/kvsteer/kvsteer/tenancy/quota"
	limits "github.com/kvsteer/kvsteer/tenancy/quota/file"
)

// tenancy is whom requests come from and what they may use. Both files are followed.
type tenancy struct {
	options []kvsteer.Option
	closers []io.Closer
	limiter *quota.Limiter // nil without limits
}

func newTenancy(c *tenants, logger *slog.Logger) (_ *tenancy, err error) {
	if *c == (tenants{}) {
		return &tenancy{}, nil
	}
	if c.Keys == "" {
		return nil, errors.New("-keys: limits and refuseAnonymous need a file of API keys, or nobody is anybody")
	}
	t := &tenancy{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	keys, err := file.Open(c.Keys, file.Options{Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("-keys: %w", err)
	}
	t.closers = append(t.closers, keys)
	opts := kvsteer.TenancyOptions{Identify: keys, RefuseUnverified: true, RefuseAnonymous: c.RefuseAnonymous}
	if c.Limits != "" {
		limiter, failed := quota.New(quota.Options{})
		if failed != nil {
			return nil, failed
		}
		follow, failed := limits.Follow(c.Limits, limiter, limits.Options{Logger: logger})
		if failed != nil {
			return nil, fmt.Errorf("-limits: %w", failed)
		}
		t.closers = append(t.closers, follow)
		opts.Limits, t.limiter = limiter, limiter
	}
	t.options = []kvsteer.Option{kvsteer.WithTenancy(opts)}
	return t, nil
}

// Close stops following the files.
func (t *tenancy) Close() (err error) {
	for _, c := range t.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}
