package kvsteerotel_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/tracing.md lists what a span may have, and nothing that it has not.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/tracing.md")
	require.NoError(t, err)
	var source strings.Builder
	for _, name := range []string{"attributes.go", "call.go", "errortype.go"} {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		source.Write(b)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(?:key|event|type)\w+ += "(\S+)"`).FindAllStringSubmatch(source.String(), -1) {
		assert.Contains(t, string(page), "`"+m[1]+"`")
	}
	for _, m := range regexp.MustCompile("`((?:kvsteer|gen_ai|server)\\.[a-z_.]+)`").FindAllStringSubmatch(string(page), -1) {
		assert.Contains(t, source.String(), `"`+m[1]+`"`)
	}
}
