package file_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers/file"
)

var updateSchema = flag.Bool("update-schema", false, "write docs/provider-schema.json anew")

const schemaFile = "../../docs/provider-schema.json"

func TestSchemaIsCurrent(t *testing.T) {
	want, err := file.Schema()
	require.NoError(t, err)
	if *updateSchema {
		require.NoError(t, os.WriteFile(schemaFile, want, 0o600))
	}
	got, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))),
		"docs/provider-schema.json is not what the tables say: run go generate ./providers/file")
}

// Every key is explained, and stands in the file that is read in tests.
func TestEveryKey(t *testing.T) {
	text, err := file.Schema()
	require.NoError(t, err)
	every, err := os.ReadFile(everyKey)
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(text, &root))
	n := 0
	var walk func(v any)
	walk = func(v any) {
		o, _ := v.(map[string]any)
		properties, _ := o["properties"].(map[string]any)
		for key, s := range properties {
			n++
			require.NotEmpty(t, s.(map[string]any)["description"], key)
			if !slices.Contains([]string{"status", "key"}, key) {
				require.Contains(t, string(every), key+":")
			}
			walk(s)
		}
		walkList := func(key string) {
			list, _ := o[key].([]any)
			for _, e := range list {
				walk(e)
			}
		}
		walkList("anyOf")
		if items := o["items"]; items != nil {
			walk(items)
		}
	}
	walk(root)
	require.Greater(t, n, 30)
}
