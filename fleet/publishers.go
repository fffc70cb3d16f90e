package fleet

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// publishers knows which endpoint of which worker each address belongs to. What
// one publisher says is about one cache: whoever shares it would seem to hold
// what the other does.
type publishers map[string][]publisher

type publisher struct {
	worker string
	place  int // in the worker's events
	topic  string
	polled bool
}

// claim notes that an endpoint of a worker is at its address, unless somebody is
// there already: then it returns who, as a person would say it.
func (p publishers) claim(worker string, place int, e *follow.Endpoint) (taken string) {
	if e.Events == "" {
		return ""
	}
	own := publisher{worker: worker, place: place, topic: e.Topic, polled: isPolled(e.Events)}
	at := canonical(e.Events)
	for _, other := range p[at] {
		if own.collides(other) {
			return other.describe(worker)
		}
	}
	p[at] = append(p[at], own)
	return ""
}

// add claims all of a worker's endpoints, which are known not to collide.
func (p publishers) add(w *Worker) {
	for i := range w.Events {
		p.claim(w.Name, i, &w.Events[i])
	}
}

// collides reports whether two endpoints of one address would receive the same
// messages.
func (p publisher) collides(o publisher) bool {
	if p.polled {
		return p.worker != o.worker // one address answers for all ranks
	}
	// A relay may pass on several publishers, each under a topic of its own.
	return strings.HasPrefix(p.topic, o.topic) || strings.HasPrefix(o.topic, p.topic)
}

func (p publisher) describe(asker string) string {
	if p.worker == asker {
		return fmt.Sprintf("events[%d] of the same worker", p.place)
	}
	return fmt.Sprintf("events[%d] of worker %q", p.place, p.worker)
}

// canonical makes spellings of one address alike. It is for comparison only.
func canonical(addr string) string {
	scheme, rest, _ := strings.Cut(addr, "://")
	scheme = strings.ToLower(scheme)
	switch {
	case isPolled(addr):
		const appended = "/kv_cache_events" // by the transport that polls
		u, err := url.Parse(addr)
		if err != nil {
			return addr
		}
		path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), appended)
		return scheme + "://" + strings.ToLower(u.Host) + strings.TrimRight(path, "/")
	case scheme == "tcp":
		return scheme + "://" + strings.ToLower(rest)
	default:
		return scheme + "://" + rest // names and paths, in which case matters
	}
}
