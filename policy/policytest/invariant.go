package policytest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvsteer/kvsteer/policy"
)

// Space bounds what [Kit.Invariant] tries. The zero value is fine for most policies.
type Space struct {
	// Most is how many candidates there are at once, at most. 0 means 2, or one more than
	// a condition on healthyWorkers needs: candidates matter to each other only through
	// the state of the pool and through which stage has any.
	Most int
	// Limit is how many evaluations are done at most, 0 means 5,000,000. A space that
	// is larger is not tried in part: Invariant fails and says what makes it large.
	Limit int
	// Requests and Candidates are tried beside those that follow from the policy: what
	// the property tells apart and the policy does not.
	Requests   []policy.Request
	Candidates []policy.Candidate
}

const (
	defaultMost  = 2
	defaultLimit = 5_000_000
)

// Property is what must hold of everything that a policy may be asked. The error says
// what does not.
type Property func(o *Outcome) error

// Counterexample is where a Property does not hold: no request or candidates that are
// simpler show it.
type Counterexample struct {
	Outcome *Outcome
	Err     error
	// Differs is what is out of the ordinary about the request and the candidates.
	Differs []string
	// Tried is how many evaluations it took.
	Tried int
}

// String shows what was asked and why the policy decided so.
func (c *Counterexample) String() string {
	differs := "an ordinary request"
	if len(c.Differs) > 0 {
		differs = strings.Join(c.Differs, ", ")
	}
	return fmt.Sprintf("%v\nsmallest counterexample: %s\n%s", c.Err, differs, c.Outcome)
}

// ErrSpace is why a space was not tried: it is larger than [Space.Limit].
var ErrSpace = errors.New("policytest: the space is larger than Space.Limit")

// ErrUnconcerned is what a [Property] may return of a request and candidates that it is
// not about. If it is about none of all, [Kit.Invariant] fails: then nothing was tested.
var ErrUnconcerned = errors.New("policytest: the property is not about this")

// Search tries everything that the policy tells apart, the simplest first: each state
// of each tag, each tenant, class, API, model, header and pool that it mentions and one
// that it does not, both sides of each threshold and the threshold itself; and all sets
// of up to Most candidates of the kinds that it tells apart, the empty set first. It
// returns where the property first fails, nil if it holds everywhere, and how many
// evaluations that took. The error is ErrSpace.
//
// Of candidates there are those only that a router would gather: of models that the
// policy may send the request to.
func (k *Kit) Search(space Space, holds Property) (found *Counterexample, tried int, err error) {
	m := k.set.Mentions()
	if space.Most == 0 {
		space.Most = defaultMost
		if len(m.HealthyWorkers) > 0 { // these, and one that is there because of them
			space.Most = max(defaultMost, workers(m)+1)
		}
	}
	if space.Limit == 0 {
		space.Limit = defaultLimit
	}
	requests := append(requestsOf(m), extraRequests(space.Requests)...)
	kinds := newKinds(m, space.Candidates)
	if n := kinds.count(k.set, requests, space.Most); n > float64(space.Limit) {
		return nil, 0, fmt.Errorf("%w: %d kinds of requests and up to %d kinds of candidates, %d at once, make %.3g evaluations, more than %d; "+
			"raise Limit, lower Most, or test rules apart", ErrSpace, len(requests), kinds.most(k.set, requests), space.Most, n, space.Limit)
	}
	for size := 0; size <= space.Most; size++ {
		for i := range requests {
			kinds.each(k.set, &requests[i], size, func(list []policy.Candidate, differs func() []string) bool {
				tried++
				o := evaluate(k.set, requests[i].Request, list)
				if bad := holds(o); bad != nil && !errors.Is(bad, ErrUnconcerned) {
					o.Candidates = append([]policy.Candidate(nil), list...)
					found = &Counterexample{Outcome: o, Err: bad, Tried: tried, Differs: append(requests[i].differs, differs()...)}
				}
				return found == nil
			})
			if found != nil {
				return found, tried, nil
			}
		}
	}
	return nil, tried, nil
}

// Invariant fails the test if the property fails anywhere, and shows the smallest
// example; see [Kit.Search]. It does not count as coverage.
func (k *Kit) Invariant(t testing.TB, space Space, holds Property) {
	t.Helper()
	concerned := false
	found, tried, err := k.Search(space, func(o *Outcome) error {
		bad := holds(o)
		concerned = concerned || !errors.Is(bad, ErrUnconcerned)
		return bad
	})
	switch {
	case err != nil:
		t.Errorf("%v", err)
	case found != nil:
		t.Errorf("policytest: %s", found)
	case tried == 0:
		t.Errorf("policytest: there was nothing to try")
	case !concerned:
		t.Errorf("policytest: none of %d evaluations is what the property is about, so that nothing was tested: "+
			"the policy does not mention it; correct a name, or add it to Space.Requests or Space.Candidates", tried)
	}
}

// Never is the property that no candidate of a kind may ever get a request of a kind,
// neither at first nor after others have failed.
func Never(request func(*policy.Request) bool, candidate func(*policy.Candidate) bool) Property {
	return func(o *Outcome) error {
		if !request(&o.Request) || !slices.ContainsFunc(o.Candidates, func(c policy.Candidate) bool { return candidate(&c) }) {
			return ErrUnconcerned
		}
		for at, i := range o.Plan.Order {
			if c := &o.Candidates[i]; candidate(c) {
				when := "gets the request"
				if at > 0 {
					when = "gets the request when others have failed"
				}
				return fmt.Errorf("%s %s %s, which must never be", strings.ToLower(c.Type.String()), c.Name, when)
			}
		}
		return nil
	}
}

// Always is the property that a request of a kind is never turned away while a
// candidate of a kind is there.
func Always(request func(*policy.Request) bool, candidate func(*policy.Candidate) bool) Property {
	return func(o *Outcome) error {
		if !request(&o.Request) {
			return ErrUnconcerned
		}
		for i := range o.Candidates {
			if c := &o.Candidates[i]; candidate(c) {
				if len(o.Plan.Order) > 0 {
					return nil
				}
				return fmt.Errorf("the request is turned away, though %s %s is there", strings.ToLower(c.Type.String()), c.Name)
			}
		}
		return ErrUnconcerned
	}
}

// AnyRequest takes every request, AnyCandidate every candidate.
func AnyRequest(*policy.Request) bool { return true }

// AnyCandidate: see [AnyRequest].
func AnyCandidate(*policy.Candidate) bool { return true }

// MayBe takes requests of which it is not certain that they don't have a tag: present
// or unknown.
func MayBe(tag string) func(*policy.Request) bool {
	return func(r *policy.Request) bool { return r.Tag(tag) != policy.TagAbsent }
}

// Of takes the requests of a tenant.
func Of(tenant string) func(*policy.Request) bool {
	return func(r *policy.Request) bool { return r.Tenant == tenant }
}

// IsProvider takes providers, IsLocal local workers.
func IsProvider(c *policy.Candidate) bool { return c.Type == policy.Provider }

// IsLocal: see [IsProvider].
func IsLocal(c *policy.Candidate) bool { return c.Type == policy.Local }
