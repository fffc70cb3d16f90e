package quota

import "context"

// Hold is what a request has taken from limits, wherever those are kept: a [Reservation],
// or one of package redis. One of Settle and Refund must be called, and takes effect, once.
// None of them blocks on a network. Safe for concurrent use.
type Hold interface {
	// Settle replaces what was reserved by what was used; it reports whether it did.
	Settle(u Used) bool
	// Refund gives everything back that rates have not refilled meanwhile: nothing was
	// served. It reports whether it did.
	Refund() bool
	// Standing returns how the tightest of the rates that count a meter stands; ok is
	// false if none does or that isn't known.
	Standing(m Meter) (s Standing, ok bool)
	// Soft returns the budgets that are at their soft limit or beyond, what requests under
	// way may cost included, this one's among it; nil if none is, or that isn't known, or the
	// Hold has been ended.
	Soft() []Notice
	// Degraded is a short fixed phrase that says with what less than everything known
	// the request was let through, "" if with nothing less.
	Degraded() string
}

// Admit is Reserve with memory of its own: see [Hold].
func (l *Limiter) Admit(_ context.Context, d *Demand) (Hold, error) {
	r := new(Reservation)
	if err := l.Reserve(d, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Degraded implements [Hold]: a Limiter knows everything that it decides about.
func (r *Reservation) Degraded() string { return "" }
