package kvsteercaddy

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/file"
)

// The example is the same in both languages, and is what it seems to be.
func TestExample(t *testing.T) {
	const dir = "../../examples/caddy/"
	text, err := os.ReadFile(dir + "Caddyfile")
	require.NoError(t, err)
	want, err := os.ReadFile(dir + "caddy.json")
	require.NoError(t, err)
	got, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": "Caddyfile"})
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.JSONEq(t, string(want), string(got))
	var h Handler
	require.NoError(t, json.Unmarshal([]byte(`{"fleet":"examples/caddy/fleet.yaml"}`), &h))
	require.Contains(t, string(got), h.Fleet)
	workers, err := file.Load(dir + "fleet.yaml")
	require.NoError(t, err)
	require.Len(t, workers, 3)
}

// docs/caddy.md, and the comment of UnmarshalCaddyfile, list the options that there are.
func TestOptionsAreDocumented(t *testing.T) {
	want := slices.Collect(maps.Keys(caddyfileOptions()))
	want = slices.AppendSeq(want, maps.Keys(queueOptions()))
	want = slices.AppendSeq(want, maps.Keys(redisOptions()))
	for name, block := range map[string]string{
		"../../docs/caddy.md": "(?s)\nkvsteer \\[<matcher>\\] \\{\n(.*?)\n\\}",
		"caddyfile.go":        "(?s)//\tkvsteer \\[<matcher>\\] \\{\n(.*?)\n//\t\\}",
	} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		found := regexp.MustCompile(block).FindSubmatch(text)
		require.Len(t, found, 2, name)
		var listed []string
		for _, line := range regexp.MustCompile(`(?m)^(?://)?\t+([a-z_]+)`).FindAllSubmatch(found[1], -1) {
			listed = append(listed, string(line[1]))
		}
		require.ElementsMatch(t, want, listed, name)
	}
}

// So are the placeholders.
func TestPlaceholdersAreDocumented(t *testing.T) {
	text, err := os.ReadFile("handler.go")
	require.NoError(t, err)
	var listed []string
	for _, m := range regexp.MustCompile(`//\t\{http\.kvsteer\.([a-z_]+)\}`).FindAllSubmatch(text, -1) {
		listed = append(listed, string(m[1]))
	}
	require.ElementsMatch(t, placeholders(), listed)
}
