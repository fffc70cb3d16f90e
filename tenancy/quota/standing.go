package quota

// BudgetUse says how far one of the budgets of a rule is used up.
type BudgetUse struct {
	// Rule is its name.
	Rule string
	// Money and Tokens are the greatest share that anybody has used of theirs, what requests
	// under way may cost included: 1 is all, more is debt. 0 without such a limit.
	Money, Tokens float64
	// Holders are those who have spent something in their period, Soft those of them who are
	// at the rule's soft limit or beyond, Full those who have nothing left.
	Holders, Soft, Full int
}

// Budgets returns how the budgets stand, one entry for each rule that has one, in the order
// of the rules. It looks at every bucket there is: call it every few seconds, not for each
// request.
func (l *Limiter) Budgets() []BudgetUse {
	set := l.rules.Load()
	at := make(map[uint32]int)
	var out []BudgetUse
	for _, r := range set.rules {
		if _, dup := at[r.id]; !dup && r.period.limits() {
			at[r.id] = len(out)
			out = append(out, BudgetUse{Rule: r.Name})
		}
	}
	if len(out) == 0 {
		return nil
	}
	// A rule's period is the same for all: finding out when it began takes longer than the rest.
	now, oldest := l.opts.Now(), make([]int64, len(out))
	for _, r := range set.rules {
		if k, ok := at[r.id]; ok {
			oldest[k] = r.period.oldest(now)
		}
	}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.RLock()
		for _, e := range s.entries {
			if k, ok := at[e.id]; ok {
				e.mu.Lock()
				out[k].take(e, oldest[k])
				e.mu.Unlock()
			}
		}
		s.mu.RUnlock()
	}
	return out
}

// take adds what e has spent. Its mutex is held.
func (u *BudgetUse) take(e *entry, oldest int64) {
	s, p := e.budget, &e.rule.period
	if s == nil || e.running == forgotten {
		return
	}
	s.keepFrom(oldest)
	sum := s.spent().plus(s.reserved)
	if sum == (amount{}) {
		return
	}
	u.Holders++
	money, tokens := share(sum.money, p.Money), share(sum.tokens, p.Tokens)
	u.Money, u.Tokens = max(u.Money, money), max(u.Tokens, tokens)
	if p.softly(sum) {
		u.Soft++
	}
	if money >= 1 || tokens >= 1 {
		u.Full++
	}
}

func share(used, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(used) / float64(of)
}
