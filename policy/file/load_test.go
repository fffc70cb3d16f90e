package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/file"
)

const reloads, evaluations = 50, 10_000

// generation is two policies that belong together: one that sends all requests to
// worker n, and a shadow of the same number.
func generation(n int) string {
	const text = `apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: %s}
spec:
  mode: %s
  rules:
  - name: generation-%d
    route:
      exclude:
      - name: others-than-%d
        drop: {backend: {name: [worker-%d]}}
      select: [{order: [worker-%d, worker-%d]}]
---
`
	return fmt.Sprintf(text, "enforced", "Enforce", n, n, n+1, n, n+1) + fmt.Sprintf(text, "shadow", "Shadow", n, n, n+1, n, n+1)
}

// Whatever is loaded meanwhile, each decision is made by one policy as a whole, which
// it names.
func TestReloadsUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	replace := func(n int) {
		write(t, path+".new", generation(n))
		require.NoError(t, os.Rename(path+".new", path))
	}
	replace(0)
	s, err := file.Open(path, file.Options{Interval: time.Millisecond})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()

	var versions sync.Map // of a generation
	var done, stop atomic.Int64
	cands := make([]policy.Candidate, reloads+2)
	for i := range cands {
		cands[i] = policy.Candidate{Name: fmt.Sprintf("worker-%d", i), Model: "glm"}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var plan policy.Plan
			for stop.Load() == 0 || done.Load() < evaluations {
				p := s.Current()
				p.Evaluate(&policy.Request{Model: "glm", Attempt: 1}, cands, &plan)
				if !whole(t, &plan, cands, &versions) {
					return
				}
				done.Add(1)
			}
		})
	}
	// A generation must be seen before the next one replaces it, the first included. Each
	// of the others may have taken the one before once more.
	seen := func(n int) {
		_, ok := versions.Load(n)
		for had := done.Load(); !t.Failed() && (!ok || done.Load() < had+evaluations/reloads); _, ok = versions.Load(n) {
			time.Sleep(time.Microsecond) // others have their turn
		}
	}
	seen(0)
	for n := 1; n <= reloads; n++ {
		replace(n)
		require.NoError(t, s.Reload())
		seen(n)
	}
	stop.Store(1)
	wg.Wait()
	generations := 0
	versions.Range(func(any, any) bool { generations++; return true })
	require.Equal(t, reloads+1, generations)
	require.GreaterOrEqual(t, done.Load(), int64(evaluations))
	require.EqualValues(t, reloads+1, s.Status().Loads)
}

// whole checks that all of a plan is of one generation, and that the generation has
// one version.
func whole(t *testing.T, plan *policy.Plan, cands []policy.Candidate, versions *sync.Map) bool {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(plan.Rule, "generation-%d", &n); !assert.NoError(t, err) {
		return false
	}
	version, _ := versions.LoadOrStore(n, plan.Version)
	return assert.Equal(t, version, plan.Version) &&
		assert.Equal(t, []string{cands[n].Name, "1", plan.Rule, fmt.Sprint(n), fmt.Sprintf("others-than-%d", n)}, []string{
			cands[plan.Order[0]].Name, fmt.Sprint(len(plan.Order)), plan.Shadows[0].Rule, fmt.Sprint(plan.Shadows[0].First),
			plan.Dropped[n].Exclusion,
		})
}
