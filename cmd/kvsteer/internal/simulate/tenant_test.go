package simulate

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// served is the product's line, which keeps the calls that it gave a worker.
type served struct {
	*Late

	jobs []*Job
}

func (s *served) Bind(state *State, waiting []*Job) (job, worker int) {
	job, worker = s.Late.Bind(state, waiting)
	if job >= 0 {
		s.jobs = append(s.jobs, waiting[job])
	}
	return job, worker
}

// twoTenants is Control in which one call of a hundred and one is light's and the others
// are heavy's; all are of one tenant if they are not told apart.
func twoTenants(apart bool) *Workload {
	w := Control(64, nil)
	session, n := w.Session, 0
	w.Session = func() []*Call {
		calls := session()
		if apart {
			calls[0].Tenant = "heavy"
		}
		if n++; n%101 == 50 {
			calls[0].Tenant = "light"
		}
		return calls
	}
	return w
}

// waits are the times to first token of a tenant's calls, sorted, in seconds.
func waits(t *testing.T, jobs []*Job, light bool, is func(*Job) bool) []float64 {
	t.Helper()
	var out []float64
	for _, j := range jobs {
		if is(j) == light {
			require.Positive(t, j.first)
			out = append(out, (j.first - j.Arrived).Seconds())
		}
	}
	slices.Sort(out)
	return out
}

// A tenant that sends a hundred times as much as another, twice what the fleet can do,
// keeps itself waiting and not the other. docs/tenancy.md has these figures.
func TestHeavyTenantHardlyDelaysLight(t *testing.T) {
	run := func(rate float64, duration time.Duration, apart bool, line steer.Line) (light, heavy []float64) {
		cfg := small()
		cfg.Rate, cfg.Duration = rate, duration
		w := twoTenants(apart)
		w.Reseed(cfg.Seed)
		mine := map[*Call]bool{}
		session := w.Session
		w.Session = func() []*Call {
			calls := session()
			if calls[0].Tenant == "light" {
				mine[calls[0]] = true
				if !apart {
					calls[0].Tenant = ""
				}
			}
			return calls
		}
		rule, err := NewRule("kvsteer-queue", cfg.Seed)
		require.NoError(t, err)
		r := &served{Late: rule.(*Late)}
		line.Aging = r.line.Aging
		r.line = line
		_, err = Run(context.Background(), cfg, w, r)
		require.NoError(t, err)
		is := func(j *Job) bool { return mine[j.Call] }
		return waits(t, r.jobs, true, is), waits(t, r.jobs, false, is)
	}
	const rate, duration = 7, 3 * time.Minute // 3 workers compute about 3.7 such prompts a second
	aloneLight, _ := run(rate/101.0, 100*duration, true, steer.Line{})
	together, _ := run(rate, duration, false, steer.Line{})
	shared, heavy := run(rate, duration, true, steer.Line{})
	half, _ := run(rate, duration, true, steer.Line{HalfLife: time.Minute})
	report := func(name string, s []float64) {
		t.Logf("%-28s %4d calls, time to first token: median %6.2f s, p99 %6.2f s, most %6.2f s", name, len(s), Quantile(s, 0.5), Quantile(s, 0.99), s[len(s)-1])
	}
	report("light, alone", aloneLight)
	report("light, not told apart", together)
	report("light, shares", shared)
	report("light, shares, half-life", half)
	report("heavy, shares", heavy)
	for _, s := range [][]float64{shared, half} {
		require.Less(t, s[len(s)-1], 4.0, "its own prompt takes 0.9 s, and another may be before it")
		require.Less(t, 10*Quantile(s, 0.5), Quantile(together, 0.5))
	}
}
