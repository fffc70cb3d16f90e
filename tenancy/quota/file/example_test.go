package file_test

import (
	"fmt"
	"os"
	"path/filepath"

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
	limiter, err := quota.New(quota.Options{})
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
			fmt.Println(err.(*quota.Error).Rule, "refuses")
			return
		}
		r.Settle(quota.Used{Uncached: 12, Output: 30})
	}
	// Output: tenants refuses
}
