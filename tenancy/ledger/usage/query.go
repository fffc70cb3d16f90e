package usage

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// Field is something to group by.
type Field string

// The fields.
const (
	Day      Field = "day"
	Org      Field = "org"
	Team     Field = "team"
	Tenant   Field = "tenant"
	Key      Field = "key"
	Class    Field = "class"
	Model    Field = "model"
	Served   Field = "served"
	Worker   Field = "worker"
	Provider Field = "provider"
)

// Fields lists them.
func Fields() []Field {
	return []Field{Day, Org, Team, Tenant, Key, Class, Model, Served, Worker, Provider}
}

// of returns the field's value. Who served it, and with what, is known at the end.
func (f Field) of(base, end *ledger.Record, zone *time.Location) string {
	switch f {
	case Day:
		return base.At.In(zone).Format(time.DateOnly)
	case Org:
		return base.Org
	case Team:
		return base.Team
	case Tenant:
		return base.Tenant
	case Key:
		return base.Key
	case Class:
		return base.Class
	case Model:
		return base.Model
	case Served:
		return end.Served
	case Worker:
		return end.Worker
	default:
		return end.Provider
	}
}

// Query says what to add up. The zero Query adds up everything by day and tenant.
type Query struct {
	// By is what to group by, in the order of the rows. Empty means Day and Tenant.
	By []Field
	// Zone is that of days. Nil means UTC.
	Zone *time.Location
	// From and To bound the time at which attempts were let through: from From on, before
	// To. Zero means no bound.
	From, To time.Time
	// Tenants and Models select attempts, by what the client asked for. Empty means all.
	Tenants, Models []string
}

func (q *Query) fill() error {
	if len(q.By) == 0 {
		q.By = []Field{Day, Tenant}
	}
	for i, f := range q.By {
		if !slices.Contains(Fields(), f) {
			return fmt.Errorf("usage: can't group by %q; the fields are %v", f, Fields())
		}
		if slices.Contains(q.By[:i], f) {
			return fmt.Errorf("usage: %q is there twice", f)
		}
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return fmt.Errorf("usage: nothing is from %s on and before %s", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	}
	if q.Zone == nil {
		q.Zone = time.UTC
	}
	return nil
}

// Selects reports whether an attempt counts whose reservation is r, or whose end is, if
// it has none.
func (q *Query) Selects(r *ledger.Record) bool {
	return (q.From.IsZero() || !r.At.Before(q.From)) && (q.To.IsZero() || r.At.Before(q.To)) &&
		(len(q.Tenants) == 0 || slices.Contains(q.Tenants, r.Tenant)) &&
		(len(q.Models) == 0 || slices.Contains(q.Models, r.Model))
}
