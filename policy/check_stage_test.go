package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func randomRoute(r *rand.Rand) Route {
	var route Route
	names := []string{"w1", "w2", "p1", "p2"}
	some := func() []string {
		list := []string{}
		for _, i := range r.Perm(len(names))[:1+r.IntN(3)] {
			list = append(list, names[i])
		}
		return list
	}
	labels := func() map[string]string {
		return []map[string]string{nil, {"zone": "a"}, {"zone": "b"}, {"zone": "a", "size": "xl"}}[r.IntN(4)]
	}
	for range r.IntN(3) {
		var c Consider
		if r.IntN(2) == 0 {
			c.Models = []string{"m1", "m2"}[:1+r.IntN(2)]
		}
		switch r.IntN(3) {
		case 0:
			c.WorkerLabels = labels()
			if c.WorkerLabels == nil {
				c.Workers = some()
			}
		case 1:
			c.Providers = some()
		default:
			c.Models = []string{"m2"}
		}
		route.Consider = append(route.Consider, c)
	}
	for range r.IntN(3) {
		x := Exclusion{Drop: Filter{Type: BackendKind(r.IntN(3))}}
		switch r.IntN(3) {
		case 0:
			x.Drop.Name = some()
		case 1:
			x.Drop.Labels = labels()
		default:
			x.Drop.KVCacheUsage = GreaterThan(0.5)
		}
		route.Exclude = append(route.Exclude, x)
	}
	for range 1 + r.IntN(4) {
		s := Stage{Type: BackendKind(r.IntN(3))}
		switch r.IntN(4) {
		case 0:
			s.Order = some()
		case 1:
			s.Weighted = []Share{{Model: "m1", Weight: 1}, {Name: names[r.IntN(4)], Labels: labels(), Weight: 2}}
		}
		route.Select = append(route.Select, s)
	}
	return route
}

// candidatesOfAll has one for everything that randomRoute can tell apart.
func candidatesOfAll() []Candidate {
	var out []Candidate
	for _, name := range []string{"w1", "w2", "p1", "p2", "other"} {
		for _, kind := range []BackendType{Local, Provider} { // names may be those of both
			for _, model := range []string{"m1", "m2", "m3"} {
				for _, zone := range []string{"", "a", "b"} {
					for _, size := range []string{"", "xl"} {
						labels := map[string]string{}
						if zone != "" {
							labels["zone"] = zone
						}
						if size != "" {
							labels["size"] = size
						}
						for _, usage := range []float64{0.1, 0.9} {
							out = append(out, Candidate{Name: name, Type: kind, Model: model, Labels: labels, KVUsage: usage})
						}
					}
				}
			}
		}
	}
	return out
}

// A stage that is reported never has a candidate. Others have one, but for few.
func TestReportedStagesAreEmpty(t *testing.T) {
	t.Parallel()
	all := candidatesOfAll()
	r := rand.New(rand.NewPCG(5, 6))
	reported, used, unproven := 0, 0, 0
	for range 4000 {
		s := &Spec{Name: "p", Rules: []Rule{{Name: "r", Route: randomRoute(r)}}}
		dead := map[string]bool{}
		for _, f := range s.problems(checking{}) {
			if f.Code == CodeUnreachableStage || f.Code == CodeEmptyStage {
				dead[f.Path] = true
			}
		}
		p := compileSpec(s, nil)
		reached := map[int]bool{}
		for _, model := range []string{"m1", "m3"} {
			sc := &scratch{pool: pool{req: &Request{Model: model}, candidates: all}}
			var plan Plan
			p.rules[0].plan(sc, &plan)
			for k := range plan.Order {
				stage := 0
				if len(plan.Stages) > 0 {
					stage = plan.Stages[k]
				}
				reached[stage] = true
			}
		}
		for i := range s.Rules[0].Route.Select {
			switch isDead := dead[item("spec.rules[0].route.select", i)]; {
			case isDead:
				reported++
				require.False(t, reached[i], "stage %d of %+v", i, s.Rules[0].Route)
			case reached[i]:
				used++
			default:
				unproven++
			}
		}
	}
	require.Greater(t, reported, 500)
	require.Greater(t, used, 1000)
	t.Logf("%d stages reported, %d used, %d unproven", reported, used, unproven)
	require.Less(t, unproven, reported/20, "many stages are empty, and nothing is said")
}
