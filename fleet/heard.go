package fleet

import "time"

// mostHeard bounds what is remembered of when peers had more. It is asked for at a first
// token, about the few milliseconds after the request was booked.
const mostHeard = 32

// heard is the last times at which peers were heard to have more to compute on a rank.
type heard struct {
	news  *[mostHeard]news // nil: never, as without peers
	count int
}

type news struct {
	at     int64 // Unix nanoseconds
	tokens int
}

func (h *heard) note(at int64, tokens int) {
	if h.news == nil {
		h.news = new([mostHeard]news)
	}
	h.news[h.count%mostHeard] = news{at, tokens}
	h.count++
}

// Unheard returns the prompt tokens of other routers' requests on the same rank that were
// heard of after the request was booked, but no later than within: whoever chose the
// worker could not know of them, and they may well be computed first. It looks back over
// the last 32 times that there was news of more. See [Member.SetPeers].
func (b *Booking) Unheard(within time.Duration) (tokens int) {
	r := b.rank
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard.news == nil {
		return 0
	}
	for _, n := range r.heard.news[:min(r.heard.count, mostHeard)] {
		if n.at >= b.began && n.at-b.began <= int64(within) {
			tokens += n.tokens
		}
	}
	return tokens
}
