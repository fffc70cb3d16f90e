package file_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/file"
)

// document is a policy of one rule with that name.
func document(name, rule string) string {
	return fmt.Sprintf(`apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: %s}
spec:
  rules:
  - name: %s
    route: {onEmpty: Reject}
    matches: [{tenant: %s}]
`, name, rule, name)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// hooks records what a Source says.
type hooks struct {
	mu    sync.Mutex
	loads []string
	errs  []error
}

func (h *hooks) options() file.Options {
	return file.Options{
		OnLoad: func(s *policy.Set) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.loads = append(h.loads, s.Version())
		},
		OnError: func(err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.errs = append(h.errs, err)
		},
	}
}

func (h *hooks) count() (loads, errs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.loads), len(h.errs)
}

func open(t *testing.T, path string, opts file.Options) *file.Source {
	t.Helper()
	s, err := file.Open(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// policies are the names of those in force.
func policies(s *file.Source) []string {
	var names []string
	for _, p := range s.Set().Outline() {
		names = append(names, p.Policy+":"+p.Rules[0].Name)
	}
	return names
}

// looks lets n looks happen.
func looks(n int) {
	time.Sleep(time.Duration(n) * time.Second)
	synctest.Wait()
}

func TestFollowsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, document("a", "one"))
	synctest.Test(t, func(t *testing.T) {
		var h hooks
		s := open(t, path, h.options())
		before := s.Set()
		require.Equal(t, []string{"a:one"}, policies(s))
		require.Equal(t, file.Status{Version: before.Version(), Files: []string{path}, Loads: 1, Loaded: s.Status().Loaded}, s.Status())

		write(t, path, document("a", "two"))
		looks(1)
		require.Same(t, before, s.Set(), "seen once: it may be half written")
		looks(1)
		require.Equal(t, []string{"a:two"}, policies(s))
		require.NotEqual(t, before.Version(), s.Set().Version())
		require.Same(t, s.Set(), s.Current())
		require.Equal(t, s.Set().Version(), s.Status().Version)
		require.EqualValues(t, 2, s.Status().Loads)

		// What is written again, or otherwise, is another file, and the same policy.
		write(t, path, document("a", "two")+"# a comment\n")
		looks(3)
		require.Equal(t, []string{"a:two"}, policies(s))
		loads, errs := h.count()
		require.Equal(t, 2, loads)
		require.Zero(t, errs)
		require.Equal(t, h.loads[0], h.loads[1])

		var plan policy.Plan
		s.Evaluate(&policy.Request{Tenant: "a"}, nil, &plan)
		require.Equal(t, "two", plan.Rule)
	})
}

func TestABadFileChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, document("a", "one"))
	for _, c := range []struct{ name, text, want string }{
		{"wrong key", strings.Replace(document("a", "two"), "tenant", "tenent", 1), path + ":8:16: "},
		{"no YAML", "a: [", "not YAML"},
		{"no policy", "apiVersion: v1\nkind: ConfigMap\n", "no policy"},
		{"empty", " \n", "is empty"},
		{"too long", strings.Repeat("#", policy.MaxFileBytes+1), "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, path, document("a", "one"))
			synctest.Test(t, func(t *testing.T) {
				var h hooks
				var log bytes.Buffer
				opts := h.options()
				opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
				s := open(t, path, opts)
				before := s.Set()
				write(t, path, c.text)
				looks(1)
				require.NoError(t, s.Status().Err, "it may be half written")
				looks(5)
				require.Same(t, before, s.Set())
				require.ErrorContains(t, s.Status().Err, c.want)
				require.False(t, s.Status().Since.IsZero())
				require.Equal(t, before.Version(), s.Status().Version)
				loads, errs := h.count()
				require.Zero(t, loads)
				require.Equal(t, 1, errs, "it is said once")
				require.Equal(t, 1, strings.Count(log.String(), "policies stay as they were"))

				write(t, path, document("a", "one"))
				looks(2)
				require.NoError(t, s.Status().Err)
				require.Same(t, before, s.Set(), "it is in force")
				write(t, path, c.text)
				looks(2)
				require.Error(t, s.Status().Err, "it is said again")
				write(t, path, document("a", "three"))
				looks(2)
				require.NoError(t, s.Status().Err)
				require.Equal(t, []string{"a:three"}, policies(s))
			})
		})
	}
}

func TestFindingsHavePositions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, strings.Replace(document("a", "two"), "tenant", "tenent", 1))
	_, err := file.Open(path, file.Options{})
	var refused *policy.CheckError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Findings, 1)
	f := refused.Findings[0]
	require.Equal(t, []any{path, 8, 16, "spec.rules[0].matches[0].tenent"}, []any{f.File, f.Line, f.Column, f.Path})
}

func TestAMissingFileChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, document("a", "one"))
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path, file.Options{})
		require.NoError(t, os.Remove(path))
		looks(1)
		require.NoError(t, s.Status().Err, "it may be replaced just now")
		looks(1)
		require.ErrorIs(t, s.Status().Err, os.ErrNotExist)
		require.Equal(t, []string{"a:one"}, policies(s))
		write(t, path, document("a", "two"))
		looks(2)
		require.Equal(t, []string{"a:two"}, policies(s))
		require.NoError(t, s.Status().Err)
	})
}

func TestADirectoryIsOneSet(t *testing.T) {
	dir := t.TempDir()
	also := filepath.Join(t.TempDir(), "also.txt")
	write(t, also, document("z", "also"))
	write(t, filepath.Join(dir, "b.yml"), document("b", "one")+"---\n"+document("c", "one"))
	write(t, filepath.Join(dir, "below", "a.yaml"), document("a", "one"))
	write(t, filepath.Join(dir, "notes.txt"), "not a policy")
	write(t, filepath.Join(dir, ".hidden.yaml"), "not: a policy")
	write(t, filepath.Join(dir, "..data", "b.yml"), document("b", "one"))
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir, file.Options{Also: []string{also, also}})
		require.Equal(t, []string{"a:one", "b:one", "c:one", "z:also"}, policies(s))
		require.Equal(t, []string{filepath.Join(dir, "b.yml"), filepath.Join(dir, "below", "a.yaml"), also}, s.Status().Files)

		write(t, filepath.Join(dir, "new.json"), `{"apiVersion":"kvsteer.dev/v1alpha1","kind":"InferencePolicy",
			"metadata":{"name":"d"},"spec":{"rules":[{"name":"json","route":{}}]}}`)
		require.NoError(t, os.Remove(filepath.Join(dir, "b.yml")))
		looks(2)
		require.Equal(t, []string{"a:one", "d:json", "z:also"}, policies(s))

		// A name that another file has.
		write(t, filepath.Join(dir, "below", "b.yaml"), document("a", "two"))
		looks(2)
		require.ErrorContains(t, s.Status().Err, `another policy is named "a"`)
		require.Len(t, policies(s), 3)
	})
}

func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, document("a", "one"))
	synctest.Test(t, func(t *testing.T) {
		var h hooks
		s := open(t, path, h.options())
		write(t, path, document("a", "two"))
		require.NoError(t, s.Reload())
		require.Equal(t, []string{"a:two"}, policies(s), "at once")
		write(t, path, "a: [")
		require.Error(t, s.Reload())
		require.Error(t, s.Reload())
		looks(3)
		loads, errs := h.count()
		require.Equal(t, 1, loads)
		require.Equal(t, 1, errs)
		require.Equal(t, []string{"a:two"}, policies(s))
	})
}

func TestOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, strings.NewReplacer("tenant: a", "tag: pii", "onEmpty: Reject", "consider: [{models: {labels: {family: big}}}]").
		Replace(document("a", "one")))
	_, err := file.Open(path, file.Options{})
	require.ErrorContains(t, err, "no model has these labels")
	labelled := policy.Options{Models: []policy.ModelLabels{{Name: "glm", Labels: map[string]string{"family": "big"}}}}
	s := open(t, path, file.Options{Compile: labelled})
	require.Equal(t, []string{"glm"}, s.Set().Models(&policy.Request{Model: "x", Tags: []policy.Tag{{Name: "pii", State: policy.TagPresent}}}, nil))
	_, err = file.Open(path, file.Options{Compile: labelled, Check: policy.CheckOptions{Tags: []string{"low"}}})
	require.ErrorContains(t, err, "pii", "a tag that nothing produces")

	_, err = file.Open("", file.Options{})
	require.ErrorContains(t, err, "path is empty")
	_, err = file.Open(path, file.Options{Interval: -1})
	require.ErrorContains(t, err, "Interval")
	_, err = file.Open(t.TempDir(), file.Options{})
	require.ErrorIs(t, err, file.ErrNoPolicy)
	_, err = file.Open(filepath.Join(t.TempDir(), "none"), file.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	if _, statErr := os.Stat("/dev/null"); statErr == nil {
		_, err = file.Open("/dev/null", file.Options{})
		require.ErrorIs(t, err, file.ErrNotRegular)
	}
}

func TestDeepDirectories(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, strings.Repeat("d/", 12), "a.yaml"), document("a", "one"))
	_, err := file.Open(dir, file.Options{})
	require.ErrorIs(t, err, file.ErrTooLarge)

	dir = t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), document("a", "one"))
	if os.Symlink(dir, filepath.Join(dir, "round")) == nil {
		s := open(t, dir, file.Options{})
		require.Equal(t, []string{"a:one"}, policies(s), "links to directories are not followed")
	}
}

func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, document("a", "one"))
	s, err := file.Open(path, file.Options{Interval: time.Microsecond})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, s.Close()) })
	}
	wg.Wait()
	require.Equal(t, []string{"a:one"}, policies(s), "what is in force stays so")
	require.NoError(t, s.Reload())
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(path, []byte(document("night", "local-only")), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	policies, err := file.Open(path, file.Options{})
	if err != nil {
		fmt.Println(err) // with file, line and column
		return
	}
	defer func() { _ = policies.Close() }()
	// A Router takes policies by kvsteer.WithPolicy.
	for _, p := range policies.Set().Outline() {
		fmt.Println(p.Policy, p.Rules[0].Name)
	}
	// Output: night local-only
}
