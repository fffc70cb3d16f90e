package file_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/internal/cputime"
)

// TestAliasesDontMultiply: a file of a few kilobytes that means billions of
// values is refused quickly.
func TestAliasesDontMultiply(t *testing.T) {
	var b strings.Builder
	b.WriteString("- &m0 {name: a, url: 'http://h:1', models: &l [" + strings.Repeat("x,", 1000) + "x]}\n")
	for range 5000 {
		b.WriteString("- {name: b, url: 'http://h:1', models: *l}\n")
	}
	nested := "a: &a0 [x]\n"
	for i := range 40 {
		nested += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	merges := "- &m0 {class: x}\n"
	for i := range 40 {
		merges += fmt.Sprintf("- &m%d {<<: [*m%d, *m%d], name: a}\n", i+1, i, i)
	}
	cases := map[string]struct{ text, want string }{
		"shared list":    {b.String(), "too many nodes"},
		"billion laughs": {nested + "workers: *a40\n", ""},
		"merges":         {merges, "merge keys are nested more than 8 deep"},
		"self reference": {"workers: &a [*a]", "a worker must be a mapping"},
		"self merge":     {"- &a {<<: *a, name: x}", "merge keys are nested more than 8 deep"},
		"deep":           {strings.Repeat("[", 100_000), "not YAML"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			began := cputime.Process()
			_, err := file.Parse([]byte(c.text))
			require.ErrorContains(t, err, c.want)
			assert.Less(t, cputime.Process()-began, 20*time.Second)
			assert.Less(t, len(err.Error()), 10_000, "and the error is bounded too")
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"workers: []", "- {name: a, url: 'http://h:1'}", "- &a {name: a, url: 'http://h:1'}\n- {<<: *a, name: b}",
		`{"workers":[{"name":"a","url":"http://h:1","labels":{"x":"y"},"events":[{"events":"tcp://h:1","rank":1}]}]}`,
		"a: &a [*a]\nworkers: *a", "? {a: b}\n: c", "- name: !!binary aGk=\n  url: !!str 7", "%YAML 1.1\n---\n[]", "\x00", "- {blockSize: 0x10, dataParallel: 1_0, draining: True}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		workers, err := file.Parse(data)
		if err != nil {
			if workers != nil {
				t.Fatal("both an error and workers")
			}
			return
		}
		if err := fleet.Validate(workers); err != nil {
			t.Fatalf("accepted what a fleet refuses: %v", err)
		}
	})
}
