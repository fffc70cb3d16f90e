package file_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/file"
)

func ExampleFollow() {
	dir, err := os.MkdirTemp("", "providers")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "providers.yaml")
	const text = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferenceProvider
metadata: {name: together}
spec:
  url: https://api.together.xyz/v1
  region: us
  models:
  - {name: qwen3, upstreamName: Qwen/Qwen3-32B, contextWindow: 131072}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	set, err := providers.New(nil, providers.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()
	source, err := file.Follow(path, set, file.Options{})
	if err != nil {
		fmt.Println(err) // with file, line and column
		return
	}
	defer func() { _ = source.Close() }()
	for _, o := range set.Offers("qwen3") {
		fmt.Println(o.Provider(), o.Upstream(), o.Labels()["region"], o.ContextWindow())
	}
	// Output: together Qwen/Qwen3-32B us 131072
}
