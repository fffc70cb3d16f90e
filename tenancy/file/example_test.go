package file_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/file"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "keys.yaml")
	const text = `
keys:
- id: search-2027 # printf %s kv-0123456789abcdef0123456789abcdef | sha256sum
  hash: sha256:03fa90a6fbd00d0cf8dffa1ef4d83100cd76f9b5c72f342f2aea74446f275756
  tenant: acme-search
  models: ["qwen3*"]
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	keys, err := file.Open(path, file.Options{})
	if err != nil {
		fmt.Println(err) // with file, line and column
		return
	}
	defer func() { _ = keys.Close() }()

	id, err := keys.Resolve(context.Background(), &tenancy.Presented{
		Header: http.Header{"Authorization": {"Bearer kv-0123456789abcdef0123456789abcdef"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id.Tenant, id.MayUseModel("qwen3-32b"), id.MayUseModel("llama"))
	// Output: acme-search true false
}
