package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Commands in docs/policy.md print what stands below them, up to the next command or
// a line of three dots.
func TestPolicyPageCommands(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	page, err := os.ReadFile(filepath.Join("docs", "policy.md"))
	require.NoError(t, err)
	run := 0
	for i, line := range strings.Split(string(page), "\n") {
		indent, command, ok := strings.Cut(line, "$ go run ./cmd/kvsteer ")
		if !ok {
			continue
		}
		run++
		var want strings.Builder
		open := false // more may follow
		for _, below := range strings.Split(string(page), "\n")[i+1:] {
			below = strings.TrimPrefix(below, indent)
			if open = below == "..."; open || below == "```" || strings.HasPrefix(below, "$ ") {
				break
			}
			want.WriteString(below + "\n")
		}
		var out, errs bytes.Buffer
		code := dispatch(context.Background(), commands(), strings.Fields(command), &out, &errs)
		if code != exitOK {
			fmt.Fprintf(&errs, "exit status %d\n", code) // as go run does
		}
		got := out.String() + errs.String()
		if open {
			got = got[:min(len(got), want.Len())]
		}
		assert.Equal(t, want.String(), got, "docs/policy.md:%d", i+1)
	}
	require.Equal(t, 3, run)
}
