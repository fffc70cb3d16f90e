package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy/file"
	"github.com/kvsteer/kvsteer/tenancy/quota"
	limits "github.com/kvsteer/kvsteer/tenancy/quota/file"
	"github.com/kvsteer/kvsteer/tenancy/redis"
)

// tenancy is whom requests come from and what they may use. Both files are followed.
type tenancy struct {
	options []kvsteer.Option
	closers []io.Closer
	limiter *quota.Limiter // nil without limits, and if they are shared
	shared  *redis.Limiter // nil if they are not
}

func newTenancy(c *tenants, in *shared, logger *slog.Logger) (_ *tenancy, err error) {
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
		if opts.Limits, err = t.limits(c.Limits, in, logger); err != nil {
			return nil, err
		}
	}
	t.options = []kvsteer.Option{kvsteer.WithTenancy(opts)}
	return t, nil
}

// followed are limits that follow a file.
type followed interface {
	limits.Limiter
	kvsteer.Limits
}

// limits are this gateway's own, or those of all replicas.
func (t *tenancy) limits(path string, in *shared, logger *slog.Logger) (l followed, err error) {
	if in.client == nil {
		t.limiter, err = quota.New(quota.Options{})
		l = t.limiter
	} else {
		t.shared, err = redis.New(redis.Options{Client: in.client, Prefix: in.name, Logger: logger})
		l = t.shared
	}
	if err != nil {
		return nil, fmt.Errorf("-limits: %w", err)
	}
	if t.shared != nil {
		t.closers = append(t.closers, told{t.shared})
	}
	follow, err := limits.Follow(path, l, limits.Options{Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("-limits: %w", err)
	}
	t.closers = append(t.closers, follow)
	return l, nil
}

// Close stops following the files.
func (t *tenancy) Close() (err error) {
	for _, c := range slices.Backward(t.closers) {
		err = errors.Join(err, c.Close())
	}
	return err
}
