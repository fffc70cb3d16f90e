package quota

import (
	"errors"
	"fmt"
	"time"
)

// Budget is an amount for a period. The zero Budget sets no limit.
type Budget struct {
	// Money is in millionths of the currency that Demand.Cost is in, Tokens are counted
	// as by the meter Tokens. 0 means no limit of that kind.
	Money, Tokens int64
	// Period is Day, Week (from Monday), Month or Year of the calendar in Zone. Empty
	// with a Window. A day begins with the first moment of its date, which is not always
	// midnight.
	Period Period
	// Zone is the calendar's time zone. Nil means UTC.
	Zone *time.Location
	// Window, instead of a Period, counts what was spent in the last so much time, in
	// steps of a sixtieth: what was spent counts until it is between Window and
	// Window/60 more old. At least a minute.
	Window time.Duration
	// SoftAt is the part of the amounts, in hundredths, at which OnSoft is told, once in
	// a period. 0 means 80; more than 100 never. A budget that is Soft refuses nothing.
	SoftAt int
	Soft   bool
}

// Period is a period of the calendar.
type Period string

// The periods.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
	Year  Period = "year"
)

// windowSteps is how finely a rolling window forgets.
const windowSteps = 60

const (
	defaultSoftAt = 80
	percent       = 100
)

// period is a Budget made ready.
type period struct{ Budget }

func (b Budget) prepare() (period, error) {
	p := period{b}
	switch {
	case b.Money < 0 || b.Tokens < 0:
		return p, errors.New("a negative amount")
	case b.Money == 0 && b.Tokens == 0:
		if b != (Budget{}) {
			return p, errors.New("it has neither Money nor Tokens")
		}
		return p, nil
	case b.Period != "" && b.Window != 0:
		return p, errors.New("it has both a Period and a Window")
	case b.Window != 0 && b.Window < time.Minute:
		return p, errors.New("a Window of less than a minute is a rate")
	case b.Window == 0:
		switch b.Period {
		case Day, Week, Month, Year:
		default:
			return p, fmt.Errorf("the Period %q is none of day, week, month and year", b.Period)
		}
	}
	if b.SoftAt < 0 {
		return p, errors.New("SoftAt is negative")
	}
	if b.SoftAt == 0 {
		p.SoftAt = defaultSoftAt
	}
	if b.Zone == nil {
		p.Zone = time.UTC
	}
	return p, nil
}

func (p *period) limits() bool { return p.Money > 0 || p.Tokens > 0 }

// start is when the calendar's period, or the step of a window, began.
func (p *period) start(now time.Time) time.Time {
	if p.Window > 0 {
		return now.Truncate(p.Window / windowSteps)
	}
	y, m, d := now.In(p.Zone).Date()
	switch p.Period {
	case Day:
	case Week:
		d -= sinceMonday(now.In(p.Zone))
	case Month:
		d = 1
	default:
		m, d = time.January, 1
	}
	start := firstOf(y, m, d, p.Zone)
	// Clocks that are put back over midnight don't bring the old period back.
	for next := p.next(start); !next.After(now); next = p.next(start) {
		start = next
	}
	return start
}

// next is when the period that began at start ends: later than start.
func (p *period) next(start time.Time) time.Time {
	y, m, d := start.In(p.Zone).Date()
	switch p.Period {
	case Day:
		d++
	case Week:
		d += 7 - sinceMonday(start.In(p.Zone))
	case Month:
		m, d = m+1, 1
	default:
		y, m, d = y+1, time.January, 1
	}
	return firstOf(y, m, d, p.Zone)
}

func sinceMonday(t time.Time) int { return (int(t.Weekday()) + 6) % 7 } //nolint:mnd // days

// firstOf is the first moment of a date, or of the first one after it that there is. It isn't
// always midnight: clocks may be put forward at midnight, by an hour or, at the date line, by
// a day; time.Date then gives a moment of the day before.
func firstOf(y int, m time.Month, d int, zone *time.Location) time.Time {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	if zone == time.UTC {
		return midnight
	}
	const most = 26 * time.Hour // more than any zone is from UTC
	t := midnight.Add(-most).In(zone)
	for {
		_, offset := t.Zone()
		_, until := t.ZoneBounds()
		first := midnight.Add(-time.Duration(offset) * time.Second).In(zone)
		if first.Before(t) {
			first = t
		}
		if until.IsZero() || first.Before(until) { // else the clocks are changed before
			return first
		}
		t = until
	}
}

// capped is how much of an estimate is reserved: no more than a budget that refuses has.
func (p *period) capped(a amount) amount {
	if p.Money > 0 && !p.Soft {
		a.money = min(a.money, p.Money)
	}
	if p.Tokens > 0 && !p.Soft {
		a.tokens = min(a.tokens, p.Tokens)
	}
	return a
}

// amount is of what budgets limit.
type amount struct{ money, tokens int64 }

func (a amount) plus(b amount) amount { return amount{a.money + b.money, a.tokens + b.tokens} }

func (a amount) minus(b amount) amount { return amount{a.money - b.money, a.tokens - b.tokens} }

// spending is the state of one budget.
type spending struct {
	steps []step // oldest first; one for a calendar's period
	// reserved is by requests under way.
	reserved amount
	told     bool // of the soft limit, in this period

	who, model, class string // whose it is
}

type step struct {
	start int64 // Unix, in nanoseconds
	spent amount
}

// advance forgets what is of an earlier period. Time that goes back changes nothing.
func (s *spending) advance(p *period, now time.Time) { s.keepFrom(p.oldest(now)) }

// oldest is from when on what was spent counts now, in nanoseconds of Unix.
func (p *period) oldest(now time.Time) int64 {
	start := p.start(now)
	if p.Window > 0 {
		start = start.Add(-p.Window)
	}
	return start.UnixNano()
}

// keepFrom forgets what was spent before.
func (s *spending) keepFrom(oldest int64) {
	keep := 0
	for keep < len(s.steps) && s.steps[keep].start < oldest {
		keep++
	}
	if keep > 0 {
		s.steps = append(s.steps[:0], s.steps[keep:]...)
	}
	if len(s.steps) == 0 {
		s.told = false
	}
}

func (s *spending) spent() (sum amount) {
	for _, st := range s.steps {
		sum = sum.plus(st.spent)
	}
	return sum
}

func (s *spending) idle() bool { return len(s.steps) == 0 && s.reserved == (amount{}) }

// exceeded returns the meter whose limit d more would exceed.
func (s *spending) exceeded(p *period, d amount) (Meter, bool) {
	sum := s.spent().plus(s.reserved).plus(d)
	switch {
	case p.Money > 0 && sum.money > p.Money && d.money > 0:
		return Money, true
	case p.Tokens > 0 && sum.tokens > p.Tokens && d.tokens > 0:
		return BudgetTokens, true
	default:
		return 0, false
	}
}

// room is when d more could fit, if nothing else is spent: in the next period, or when enough
// has left the window. It isn't exact if it needs requests under way to take less than they
// have reserved, which nobody knows: then it is as if they took nothing.
func (s *spending) room(p *period, d amount, now time.Time) (at time.Time, exact bool) {
	left := spending{steps: s.steps, reserved: s.reserved}
	_, over := (&spending{reserved: s.reserved}).exceeded(p, d)
	if over {
		left.reserved = amount{}
	}
	for len(left.steps) > 0 {
		if _, more := left.exceeded(p, d); !more {
			break
		}
		if p.Window == 0 {
			now = p.next(p.start(now))
			break
		}
		now = time.Unix(0, left.steps[0].start).Add(p.Window + p.Window/windowSteps)
		left.steps = left.steps[1:]
	}
	return now, !over
}

// spend books what was spent, and reports whether that reached the soft limit for the
// first time in the period.
func (s *spending) spend(p *period, d amount, now time.Time) (soft bool) {
	if d == (amount{}) {
		return false
	}
	start := p.start(now).UnixNano()
	if n := len(s.steps); n > 0 && s.steps[n-1].start >= start {
		s.steps[n-1].spent = s.steps[n-1].spent.plus(d)
	} else {
		s.steps = append(s.steps, step{start, d})
	}
	if s.told {
		return false
	}
	s.told = p.softly(s.spent())
	return s.told
}

// softly reports whether sum is at the soft limit or beyond.
func (p *period) softly(sum amount) bool {
	return p.Money > 0 && reached(sum.money, p.Money, p.SoftAt) || p.Tokens > 0 && reached(sum.tokens, p.Tokens, p.SoftAt)
}

// reached reports whether spent is at least at hundredths of limit.
func reached(spent, limit int64, at int) bool {
	return at <= percent && float64(spent)*percent >= float64(limit)*float64(at)
}
