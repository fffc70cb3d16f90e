package prometheus

import (
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// limitReadings are of limits, budgets and the ledger.
type limitReadings struct {
	reserved, settled, refunded     reading
	running, expired                reading
	used, holders                   reading
	records, waiting, fails, failed reading
}

// limitSeries are those of one rule: refused, soft, used by two units, holders by three.
const limitSeries = 2 + 2 + 3

func (m *Metrics) newLimits() limitReadings {
	return limitReadings{
		reserved: m.total("kvsteer_limit_reserved_total", "What requests reserved from rates, by meter: requests and tokens.", "meter"),
		settled:  m.total("kvsteer_limit_settled_total", "What they were settled with.", "meter"),
		refunded: m.total("kvsteer_limit_refunded_total", "What was given back.", "meter"),
		running:  m.gauge("kvsteer_limit_running_requests", "Requests that have reserved and not ended."),
		expired:  m.total("kvsteer_limit_expired_requests_total", "Requests whose end was never told, and that count as used as estimated."),
		used:     m.gauge("kvsteer_budget_used_ratio", "Share of a budget that is used up, of whoever has used most of it.", "rule", "unit"),
		holders: m.gauge("kvsteer_budget_holders",
			"Those whose budget is being spent, by how far: all, at the soft limit, with nothing left.", "rule", "reached"),
		records: m.total("kvsteer_ledger_records_total", "Records of the ledger, by what became of them.", "result"),
		waiting: m.gauge("kvsteer_ledger_waiting_records", "Records that are not acknowledged yet, by where they wait.", "place"),
		fails:   m.total("kvsteer_ledger_errors_total", "Failed attempts to write records."),
		failed:  m.gauge("kvsteer_ledger_failing", "1 while the ledger's sink takes nothing."),
	}
}

// BudgetNotice counts a budget that has reached its soft limit: give it as the OnSoft of
// limits, which those in package redis tell nothing else of. It may be nil.
func (m *Metrics) BudgetNotice(n *quota.Notice) {
	if n != nil {
		m.limits.get(only(n.Rule)).soft.Inc()
	}
}

func (m *Metrics) collectLimits(ch chan<- prom.Metric) {
	g := &m.read.limits
	if l := m.opts.Limiter; l != nil {
		t := l.Totals()
		for k := range quota.NumRates {
			meter := quota.Meter(k).String()
			put(ch, g.reserved, t.Reserved[k], meter)
			put(ch, g.settled, t.Settled[k], meter)
			put(ch, g.refunded, t.Refunded[k], meter)
		}
		put(ch, g.running, t.Running)
		put(ch, g.expired, t.Expired)
		m.collectBudgets(l.Budgets(), ch)
	}
	if l := m.opts.Ledger; l != nil {
		s := l.Stats()
		put(ch, g.records, s.Appended, "appended")
		put(ch, g.records, s.Durable, "durable")
		put(ch, g.records, s.Replayed, "replayed")
		put(ch, g.records, s.Lost, "lost")
		put(ch, g.waiting, s.Waiting, "memory")
		put(ch, g.waiting, s.Spooled, "spool")
		put(ch, g.fails, s.Errors)
		put(ch, g.failed, yes(s.Failing))
	}
}

// collectBudgets shows budgets by rule. Those of more rules than have labels are together.
func (m *Metrics) collectBudgets(list []quota.BudgetUse, ch chan<- prom.Metric) {
	g := &m.read.limits
	sums := map[string]quota.BudgetUse{}
	for i := range list {
		u := &list[i]
		label := other
		if m.limits.has(only(u.Rule)) {
			label = labelOf(u.Rule, true)
		}
		s := sums[label]
		s.Money, s.Tokens = max(s.Money, u.Money), max(s.Tokens, u.Tokens)
		s.Holders, s.Soft, s.Full = s.Holders+u.Holders, s.Soft+u.Soft, s.Full+u.Full
		sums[label] = s
	}
	for label, s := range sums {
		put(ch, g.used, s.Money, label, "money")
		put(ch, g.used, s.Tokens, label, "tokens")
		put(ch, g.holders, s.Holders, label, "any")
		put(ch, g.holders, s.Soft, label, "soft_limit")
		put(ch, g.holders, s.Full, label, "limit")
	}
}
