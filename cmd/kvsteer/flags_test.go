package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mistake in a flag is two lines, and help is help: of all commands alike.
func TestWrongFlags(t *testing.T) {
	t.Parallel()
	for _, c := range commands() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			require.Equal(t, exitUsage, c.run(t.Context(), []string{"-nonsense"}, &out, &errs))
			require.Empty(t, out.String())
			require.Equal(t, "kvsteer "+c.name+": flag provided but not defined: -nonsense\nsee kvsteer "+c.name+" -h\n", errs.String())

			errs.Reset()
			require.Equal(t, exitOK, c.run(t.Context(), []string{"-h"}, &out, &errs))
			require.Greater(t, strings.Count(out.String()+errs.String(), "\n"), 5)
			require.NotContains(t, errs.String(), "see kvsteer")
		})
	}
	var out, errs bytes.Buffer
	require.Equal(t, exitUsage, runSimulate(t.Context(), []string{"-rate", "much"}, &out, &errs))
	require.Equal(t, "kvsteer simulate: invalid value \"much\" for flag -rate: parse error\nsee kvsteer simulate -h\n", errs.String())
}
