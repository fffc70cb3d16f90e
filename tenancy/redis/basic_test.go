//go:build unix

package redis

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

func refusal(t *testing.T, err error) *quota.Error {
	t.Helper()
	var r *quota.Error
	require.ErrorAs(t, err, &r)
	return r
}

func TestTwoRouters(t *testing.T) {
	s := newServer(t)
	rules := quota.Options{Rules: []quota.Rule{
		{Name: "tokens", Scope: quota.PerTenant, Tokens: quota.Rate{Amount: 1000, Per: 500 * time.Hour}, Concurrency: 3},
	}}
	a, b := s.limiter(t, Options{Rules: rules}), s.limiter(t, Options{Rules: rules})
	ctx := context.Background()
	h, err := a.Admit(ctx, &quota.Demand{Tenant: "t", Input: 600})
	require.NoError(t, err)
	require.Empty(t, h.Degraded())
	st, ok := h.Standing(quota.Tokens)
	require.True(t, ok)
	require.Equal(t, quota.Standing{Rule: "tokens", Limit: 1000, Left: 400, Full: 300 * time.Hour}, st)
	_, err = b.Admit(ctx, &quota.Demand{Tenant: "t", Input: 500})
	no := refusal(t, err)
	require.Equal(t, int64(400), no.Left)
	require.InDelta(t, (50 * time.Hour).Seconds(), no.RetryAfter.Seconds(), (10 * time.Minute).Seconds())
	require.True(t, h.Settle(quota.Used{Uncached: 100}))
	require.False(t, h.Refund())
	a.settled(t)
	h, err = b.Admit(ctx, &quota.Demand{Tenant: "t", Input: 900})
	require.NoError(t, err)
	require.True(t, h.Refund())
	b.settled(t)
	require.Zero(t, a.Stats().Expired)
}
