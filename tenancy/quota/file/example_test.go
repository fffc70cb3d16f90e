package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/quota"
	"github.com/kvsteer/kvsteer/tenancy/quota/file"
)

// Limits from a file, which may change while the gateway runs.
func ExampleFollow() {
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(path, []byte("rules: [{name: tenants, scope: tenant, requests: 1}]"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := quota.New(quota.Options{Now: func() time.Time { return time.Time{} }})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := file.Follow(path, limiter, file.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limits.Close() }()

	for range 2 {
		var r quota.Reservation
		if err := limiter.Reserve(&quota.Demand{Tenant: "acme"}, &r); err != nil {
			fmt.Println(err)
			return
		}
		r.Settle(quota.Used{Uncached: 12, Output: 30})
	}
	// Output: quota: rule "tenants" for tenant "acme": the limit of 1 requests is reached (0 left, 1 needed); again in 1m0s
}
