package kubernetes

import discoveryv1 "k8s.io/api/discovery/v1"

// What tests see.
type (
	StatusWriter = statusWriter
	Condition    = condition
	Lives        = lives
)

const MaxLives = maxLives

func NewLives() *Lives { return new(memory).take(nil).livesOf() }

func (p *past) livesOf() *lives { return &p.lives }

func (l *lives) Epoch(e *discoveryv1.Endpoint) string { return l.epoch(e) }

func (l *lives) Size() int { return len(l.count) + len(l.out) }

func (l *lives) Only(endpoints ...discoveryv1.Endpoint) {
	there := map[life]bool{}
	for i := range endpoints {
		there[lifeOf(&endpoints[i])] = true
	}
	l.only(there)
}
