package extproc

import (
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
)

// touchEvery is how often a request that waits for its answer shows that it is alive.
const touchEvery = time.Second

// pulse keeps a Selection from being taken for forgotten while its worker computes, until
// it is stopped. Who reads the answer does so from then on.
type pulse struct {
	mu    sync.Mutex
	sel   *kvsteer.Selection
	every time.Duration
	timer *time.Timer
	over  bool
}

func startPulse(sel *kvsteer.Selection, every time.Duration) *pulse {
	p := &pulse{sel: sel, every: every}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.beat)
	return p
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.sel.Touch()
	p.timer.Reset(p.every)
}

// stop returns when there is no further beat. It may be called of a nil pulse.
func (p *pulse) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.timer.Stop()
}
