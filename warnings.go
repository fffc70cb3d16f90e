package kvsteer

import (
	"sync"
	"time"
)

// warnEvery is how often a lasting trouble is told again.
const warnEvery = time.Minute

// maxWarned bounds how many troubles are remembered; beyond it all are told anew.
const maxWarned = 1024

// warnings keeps a trouble that every request meets from filling the log: each is
// told once in warnEvery, with how often it was not told since. Hooks hear of all.
type warnings struct {
	mu   sync.Mutex
	told map[string]*warned
}

type warned struct {
	at     time.Time
	untold int
}

// due reports whether to tell of the trouble now, and how often it was passed over
// since it was last told.
func (w *warnings) due(trouble string, now time.Time) (untold int, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.told[trouble]
	switch {
	case t != nil && now.Sub(t.at) < warnEvery:
		t.untold++
		return 0, false
	case t != nil:
		untold = t.untold
		t.at, t.untold = now, 0
		return untold, true
	case w.told == nil || len(w.told) >= maxWarned:
		w.told = map[string]*warned{}
	}
	w.told[trouble] = &warned{at: now}
	return 0, true
}
