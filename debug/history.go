package debug

import (
	"cmp"
	"slices"
	"time"
)

// What is kept of the last minutes, so that a page that was only just opened has a past.
const (
	momentSeconds = 10
	keptMoments   = 30
)

// moment is what happened in some seconds.
type moment struct {
	slot                         int64 // the Unix time divided by momentSeconds
	decisions, rejections, timed int64
	// Sums over the timed ones, in milliseconds.
	ttft, predicted float64
}

// history is the latest moments, each at the place that its slot has. Its zero value is
// empty.
type history [keptMoments]moment

// at returns the moment of now, which is an empty one if nothing has happened in it yet.
func (h *history) at(now time.Time) *moment {
	slot := now.Unix() / momentSeconds
	m := &h[((slot%keptMoments)+keptMoments)%keptMoments]
	if m.slot != slot {
		*m = moment{slot: slot}
	}
	return m
}

// state lists the moments of the last minutes in which something happened, or the latest
// most of them.
func (h *history) state(now time.Time, most int) []momentState {
	last := now.Unix() / momentSeconds
	list := make([]momentState, 0, most)
	for i := range h {
		m := &h[i]
		if m.slot <= last-int64(most) || m.slot > last || m.decisions+m.rejections+m.timed == 0 {
			continue
		}
		list = append(list, momentState{
			At: m.slot * momentSeconds * time.Second.Milliseconds(), Decisions: m.decisions, Rejections: m.rejections,
			Timed: m.timed, TTFT: m.ttft, Predicted: m.predicted,
		})
	}
	slices.SortFunc(list, func(a, b momentState) int { return cmp.Compare(a.At, b.At) })
	return list
}
