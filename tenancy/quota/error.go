package quota

import (
	"fmt"
	"time"
)

// Error is why a request may not be served now. It is an error.
type Error struct {
	// Rule is the name of the rule that refused, Scope and Who whose bucket it was:
	// the organisation's, team's, tenant's or key's name.
	Rule  string
	Scope Scope
	Who   string
	// Model and Class are those of the bucket, where the rule counts by them.
	Model, Class string
	// Meter is what there is too little of.
	Meter Meter
	// Limit is the rate's Burst, the Concurrency or the Budget; Asked what the request
	// needs, at most the Limit of what is only estimated; Left what there was, negative in debt.
	Limit, Asked, Left int64
	// Spent is, of a Budget, what the period has seen so far, what requests under way may
	// cost included, and Reset when it is fresh: when the period ends, or when enough has
	// left the window, as far as that is known: see Exact. Zero for other meters; Reset is
	// zero if Permanent.
	Spent int64
	Reset time.Time
	// RetryAfter is after what time the same request is let through if nothing else
	// comes first. Where Concurrency refuses, too, or requests under way hold what a Budget
	// has, it is a guess, since nobody knows when a request ends: Exact says so. 0 if
	// Permanent.
	RetryAfter time.Duration
	Exact      bool
	// Permanent: it never will be, because its prompt alone is more than there can be, or
	// because the rule denies.
	Permanent bool
	// Denied: the rule has Deny.
	Denied bool
}

// Error says it in a sentence, with the names of the gateway's own configuration.
func (r *Error) Error() string {
	who := r.Scope.String()
	if r.Who != "" {
		who += fmt.Sprintf(" %q", r.Who)
	}
	if r.Model != "" {
		who += fmt.Sprintf(", model %q", r.Model)
	}
	if r.Class != "" {
		who += fmt.Sprintf(", class %q", r.Class)
	}
	switch {
	case r.Denied:
		return fmt.Sprintf("quota: rule %q lets nothing through for %s", r.Rule, who)
	case r.Permanent:
		return fmt.Sprintf("quota: rule %q for %s: the request needs %d %v, and %d is the most that it lets through at once",
			r.Rule, who, r.Asked, r.Meter, r.Limit)
	case (r.Meter == Money || r.Meter == BudgetTokens) && !r.Exact:
		return fmt.Sprintf("quota: rule %q for %s: the budget of %d %v is spent or reserved (%d are, %d more needed); "+
			"it resets at %s, try again in %v", r.Rule, who, r.Limit, r.Meter, r.Spent, r.Asked, r.Reset.Format(time.RFC3339), r.RetryAfter)
	case r.Meter == Money || r.Meter == BudgetTokens:
		return fmt.Sprintf("quota: rule %q for %s: the budget of %d %v is spent (%d are, %d more needed); it resets at %s, in %v",
			r.Rule, who, r.Limit, r.Meter, r.Spent, r.Asked, r.Reset.Format(time.RFC3339), r.RetryAfter)
	default:
		return fmt.Sprintf("quota: rule %q for %s: the limit of %d %v is reached (%d left, %d needed); again in %v",
			r.Rule, who, r.Limit, r.Meter, r.Left, r.Asked, r.RetryAfter)
	}
}
