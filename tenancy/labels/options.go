package labels

import (
	"fmt"
	"time"
)

// Mode says which tenants have values.
type Mode string

// The modes.
const (
	None      Mode = "none"      // nobody; the label is empty. The zero Mode is None
	All       Mode = "all"       // everybody, within the budget
	Allowlist Mode = "allowlist" // those of a list
)

// The values that are no tenant's own.
const (
	Default   = "default"   // who is not on the list
	Other     = "other"     // who is not within the budget
	Anonymous = "anonymous" // the tenant without a name: whom nobody has verified
)

// Options configure a [Policy]. The zero value gives no labels.
type Options struct {
	Mode Mode
	// Allow are the tenants that have values, for Allowlist only.
	Allow []string
	// Budget bounds the different values, [Other] or [Default] included: from 2 to
	// 10,000. 0 means 200, with Allowlist as many as it needs. A metric has that many
	// times the series that its other labels make.
	Budget int
	// Window is how long a value stays at least, and how long a tenant must have more
	// traffic than it to take its place. 0 means an hour; at least a second.
	Window time.Duration
	// OnFold is called when a value ends, which has not been given to anybody for a minute,
	// or a Window if that is shorter: add what is counted under it to what is under
	// [Other], and remove it. It is not called for what is in [Counters], whose own
	// business that is. It may be called from any call of Label or Add, with no lock held,
	// by one goroutine at a time.
	OnFold func(value string)
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

const (
	defaultBudget = 200
	minBudget     = 2
	maxBudget     = 10_000
	defaultWindow = time.Hour
	minWindow     = time.Second
	maxGrace      = time.Minute
)

func (o *Options) fill() error {
	if o.Mode == "" {
		o.Mode = None
	}
	switch o.Mode {
	case None, All, Allowlist:
	default:
		return fmt.Errorf("labels: the Mode %q is none of none, all and allowlist", o.Mode)
	}
	if len(o.Allow) > 0 && o.Mode != Allowlist {
		return fmt.Errorf("labels: Allow has %d tenants, but the Mode is %s; make it allowlist", len(o.Allow), o.Mode)
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
		if o.Mode == Allowlist {
			o.Budget = min(max(len(o.Allow)+1, minBudget), maxBudget)
		}
	}
	switch {
	case o.Budget < minBudget || o.Budget > maxBudget:
		return fmt.Errorf("labels: a Budget of %d; it must be from %d to %d", o.Budget, minBudget, maxBudget)
	case len(o.Allow) > o.Budget-1:
		return fmt.Errorf("labels: Allow has %d tenants, and a Budget of %d is for %d and the rest; list fewer, or make it larger",
			len(o.Allow), o.Budget, o.Budget-1)
	}
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	if o.Window < minWindow {
		return fmt.Errorf("labels: a Window of %v; it must be at least %v", o.Window, minWindow)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}
