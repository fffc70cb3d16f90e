package file_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/file"
)

func TestMain(m *testing.M) { leak.Main(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// manifest is a provider with one model.
func manifest(name, model string) string {
	return "apiVersion: kvsteer.dev/v1alpha1\nkind: InferenceProvider\nmetadata: {name: " + name + "}\nspec:\n  models: [" + model + "]\n"
}

// spec is a manifest with this spec, each line indented by itself.
func spec(text string) string {
	return "apiVersion: kvsteer.dev/v1alpha1\nkind: InferenceProvider\nmetadata: {name: a}\nspec:\n" + text
}

func newSet(t *testing.T) *providers.Set {
	t.Helper()
	set, err := providers.New(nil, providers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, set.Close()) })
	return set
}

func follow(t *testing.T, path string, set file.Set, o file.Options) *file.Source {
	t.Helper()
	s, err := file.Follow(path, set, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// offers are all that there are, as provider/model.
func offers(set *providers.Set) []string {
	var list []string
	for _, o := range set.All() {
		list = append(list, o.Provider()+"/"+o.Model())
	}
	return list
}

func looks(n int) {
	time.Sleep(time.Duration(n) * time.Second)
	synctest.Wait()
}
