package steer

import "time"

// Yields decides who goes when one more comes than may wait: the index of one of those
// that wait, or -1 for the newcomer, which has not joined. It is one of the tenant that
// has most of them by its weight, so that whoever fills the line does so for itself only;
// of those the last in line. Where that is the newcomer's own tenant, one of a lower
// priority makes room for it.
func (l *Line) Yields(ws []*Waiter, newcomer *Waiter, now time.Time) int {
	own := 1 / Weight(newcomer.Weight)
	if t := l.of[newcomer.Tenant]; t != nil {
		own = float64(t.waiting+1) / Weight(newcomer.Weight)
	}
	most, who := own, newcomer.Tenant
	for _, w := range ws {
		if crowd := float64(w.share.waiting) / w.share.weight; w.Tenant != newcomer.Tenant && crowd > most {
			most, who = crowd, w.Tenant
		}
	}
	last := -1
	for i, w := range ws {
		if w.Tenant != who || who == newcomer.Tenant && w.Priority <= newcomer.Priority {
			continue
		}
		if last < 0 || l.Before(ws[last], w, now) < 0 {
			last = i
		}
	}
	return last
}
