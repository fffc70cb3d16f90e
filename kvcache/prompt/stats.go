package prompt

import (
	"sync/atomic"
	"time"
)

// NumSources is the number of kinds of source, for arrays indexed by SourceKind.
const NumSources = int(SourceBytes) + 1

// Stats describe an Encoder at one moment.
type Stats struct {
	// Entries and Bytes are what is cached.
	Entries int
	Bytes   int64
	// Hits and Misses count look-ups, Joined the requests that waited for the
	// sources' answer to an equal one. They only grow.
	Hits, Misses, Joined uint64
	// Sources are by SourceKind.
	Sources [NumSources]SourceStats
}

// SourceStats count the requests whose prompt came from one source. They only grow.
type SourceStats struct {
	// Served counts them, those whose prompt was found in the cache included.
	Served uint64
	// Took is how long it took to get their prompts, all together: the sources that were
	// tried before are in it.
	Took time.Duration
}

// served counts what sources did. The zero value is ready.
type served [NumSources]struct {
	n, took atomic.Int64
}

func (s *served) count(k SourceKind, took time.Duration) {
	if int(k) >= len(s) {
		k = SourceNone // a user's own Source may say anything
	}
	s[k].n.Add(1)
	s[k].took.Add(int64(max(took, 0))) // a clock may be set back
}

// Stats returns the present figures.
func (e *Encoder) Stats() Stats {
	e.mu.Lock()
	joined := e.joined
	e.mu.Unlock()
	c := e.cache
	c.mu.Lock()
	out := Stats{Entries: len(c.byKey), Bytes: c.used, Hits: c.hits, Misses: c.miss, Joined: joined}
	c.mu.Unlock()
	for k := range e.served {
		s := &e.served[k]
		out.Sources[k] = SourceStats{Served: uint64(s.n.Load()), Took: time.Duration(s.took.Load())}
	}
	return out
}
