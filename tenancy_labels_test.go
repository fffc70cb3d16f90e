package kvsteer_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy/labels"
)

// What tenants are called in metrics is bounded, and the bound is told at the start.
func TestTenantLabels(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	names, err := labels.New(labels.Options{Mode: labels.All, Budget: 10})
	require.NoError(t, err)
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), kvsteer.WithTenancy(kvsteer.TenancyOptions{Labels: names}),
	}}, worker{serve: prompts(whole)})
	assert.Contains(t, log.String(), "tenants in metrics")
	assert.Contains(t, log.String(), "up to 9 values")
	seen := map[string]int{}
	for i := range 1000 {
		q := chatRequest("hi", false)
		q.Tenant = fmt.Sprint("tenant-", i)
		s, err := r.router.Select(t.Context(), q)
		require.NoError(t, err)
		seen[s.Decision().TenantLabel]++
		s.Done(kvsteer.Usage{})
	}
	assert.LessOrEqual(t, len(seen), 10)
	assert.Positive(t, seen[labels.Other])
	assert.Equal(t, 1, seen["tenant-0"])
}
