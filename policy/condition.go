package policy

import (
	"math"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache"
)

// verdict says whether a condition holds, in order.
type verdict uint8

const (
	no verdict = iota
	// maybe: it depends on what is not known yet.
	maybe
	yes
)

func verdictOf(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

// allows reports whether a list names s, or nothing.
func allows(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }

// interval is compiled from a [Range].
type interval struct {
	above, below       float64
	hasAbove, hasBelow bool
}

func (r *interval) set() bool { return r.hasAbove || r.hasBelow }

// holds is false for what is not a number, unless the interval holds everything.
func (r *interval) holds(x float64) bool {
	return (!r.hasAbove || x > r.above) && (!r.hasBelow || x < r.below)
}

// tags is a condition on tags.
type tags struct {
	names []string
	// unknown: one of which nobody knows counts as present.
	unknown bool
}

func (t *tags) hold(req *Request) bool {
	if len(t.names) == 0 {
		return true
	}
	for _, name := range t.names {
		switch req.Tag(name) {
		case TagPresent:
			return true
		case TagAbsent:
		case TagUnknown:
			fallthrough
		default: // what is no state says nothing
			if t.unknown {
				return true
			}
		}
	}
	return false
}

// header is compiled from a [HeaderMatch].
type header struct {
	name          string // canonical
	value, prefix string
	absent        bool
}

func (h *header) holds(req *Request) bool {
	values := req.Header[h.name]
	if h.absent {
		return len(values) == 0
	}
	for _, v := range values {
		if (h.value == "" || v == h.value) && strings.HasPrefix(v, h.prefix) {
			return true
		}
	}
	return false
}

func allHold(headers []header, req *Request) bool {
	for i := range headers {
		if !headers[i].holds(req) {
			return false
		}
	}
	return true
}

// part names a condition of a match, to say which one failed.
type part uint8

const (
	partNone part = iota
	partModel
	partAPI
	partTenant
	partQoS
	partSession
	partTag
	partHeader
	partTokens
	partQueued
	partUsage
	partWorkers
)

// match is compiled from a [Match].
type match struct {
	models, apis, tenants, qos []string
	tags                       tags
	headers                    []header
	tokens                     interval
	session                    int8 // 0: no matter, 1: there is one, -1: there is none
	queued, usage, workers     interval
	text                       string
}

// ofPool reports whether the match is about the state of the pool.
func (m *match) ofPool() bool { return m.queued.set() || m.usage.set() || m.workers.set() }

// holds says whether the match holds, and if not the first part that does not. With
// pool nil, what depends on the pool and on a number of tokens that is not known yet
// may hold; with pool given, of a number that is not known no condition holds.
func (m *match) holds(req *Request, pool *pool) (verdict, part) {
	switch {
	case !allows(m.models, req.Model):
		return no, partModel
	case !allows(m.apis, req.API):
		return no, partAPI
	case !allows(m.tenants, req.Tenant):
		return no, partTenant
	case !allows(m.qos, req.QoS):
		return no, partQoS
	case m.session != 0 && req.Session != (m.session > 0):
		return no, partSession
	case !m.tags.hold(req):
		return no, partTag
	case !allHold(m.headers, req):
		return no, partHeader
	}
	known := yes
	if m.tokens.set() {
		switch {
		case req.PromptTokens > 0 && !m.tokens.holds(float64(req.PromptTokens)):
			return no, partTokens
		case req.PromptTokens <= 0 && pool != nil:
			return no, partTokens
		case req.PromptTokens <= 0:
			known = maybe
		}
	}
	if !m.ofPool() {
		return known, partNone
	}
	if pool == nil {
		return maybe, partNone
	}
	return m.holdsFor(pool)
}

func (m *match) holdsFor(pool *pool) (verdict, part) {
	pool.look()
	switch {
	case !m.queued.holds(pool.queued):
		return no, partQueued
	case !m.usage.holds(pool.usage):
		return no, partUsage
	case m.workers.set() && !m.workers.holds(float64(pool.count())):
		return no, partWorkers
	default:
		return yes, partNone
	}
}

// pool is the state of the local workers that the request could go to, computed when
// it is first asked for.
type pool struct {
	req        *Request
	candidates []Candidate

	looked, counted bool
	queued, usage   float64
	workers         int
}

func (p *pool) has(c *Candidate) bool {
	return c.Type == Local && (p.req.Alias || c.Model == p.req.Model)
}

// look finds the fewest prompts that wait anywhere and the least use of KV memory:
// infinite if there is no worker, so that it counts as overloaded.
func (p *pool) look() {
	if p.looked {
		return
	}
	p.looked, p.queued, p.usage = true, math.Inf(1), math.Inf(1)
	for i := range p.candidates {
		if c := &p.candidates[i]; p.has(c) {
			p.queued = min(p.queued, float64(c.Queued))
			if c.KVUsage < p.usage { // false of what is not a number
				p.usage = c.KVUsage
			}
		}
	}
}

// count counts the workers, each with all its ranks once.
func (p *pool) count() int {
	if p.counted {
		return p.workers
	}
	p.counted, p.workers = true, 0
	for i := range p.candidates {
		if c := &p.candidates[i]; p.has(c) && !p.counts(c.Name, p.candidates[:i]) {
			p.workers++
		}
	}
	return p.workers
}

// counts reports whether one of the candidates is of the worker. It looks from the
// end, because the ranks of a worker usually stand together.
func (p *pool) counts(worker string, candidates []Candidate) bool {
	for i := len(candidates) - 1; i >= 0; i-- {
		if c := &candidates[i]; c.Name == worker && p.has(c) {
			return true
		}
	}
	return false
}

// condition is compiled from a [Condition].
type condition struct {
	tags         tags
	tenants, qos []string
	headers      []header
}

func (c *condition) holds(req *Request) bool {
	return c.tags.hold(req) && allows(c.tenants, req.Tenant) && allows(c.qos, req.QoS) && allHold(c.headers, req)
}

// label is a key and the value that it must have.
type label struct{ key, value string }

func haveAll(labels map[string]string, want []label) bool {
	for i := range want {
		if v, ok := labels[want[i].key]; !ok || v != want[i].value {
			return false
		}
	}
	return true
}

// consider is compiled from a [Consider].
type consider struct {
	// models are names. None means the requested one.
	models             []string
	workers, providers []string
	labels             []label
}

func (k *consider) takes(req *Request, c *Candidate) bool {
	if len(k.models) == 0 {
		if c.Model != req.Model {
			return false
		}
	} else if !slices.Contains(k.models, c.Model) {
		return false
	}
	if len(k.workers) > 0 || len(k.labels) > 0 {
		if c.Type != Local || !allows(k.workers, c.Name) || !haveAll(c.Labels, k.labels) {
			return false
		}
	}
	return len(k.providers) == 0 || c.Type == Provider && slices.Contains(k.providers, c.Name)
}

// considers reports whether the rule considers a candidate.
func (r *rule) considers(req *Request, c *Candidate) bool {
	if len(r.consider) == 0 {
		return c.Model == req.Model
	}
	for i := range r.consider {
		if r.consider[i].takes(req, c) {
			return true
		}
	}
	return false
}

// exclusion is compiled from an [Exclusion].
type exclusion struct {
	name, text string
	when       condition
	drop       filter
}

// filter is compiled from a [Filter].
type filter struct {
	kind    BackendKind
	names   []string
	labels  []label
	regions []string
	numbers []numeric
	// trust has a bit for each state listed; 0: no matter.
	trust uint8
}

// numeric is a condition on a quantity.
type numeric struct {
	of     quantity
	within interval
}

// quantity is a number of a candidate.
type quantity uint8

const (
	ofQueued quantity = iota
	ofRunning
	ofUsage
	ofTTFT
	ofCached
	ofPrice
	ofQuota
)

// The labels that say where a candidate is.
const (
	regionLabel           = "region"
	regionLabelKubernetes = "topology.kubernetes.io/region"
)

func (c *Candidate) region() string {
	if v, ok := c.Labels[regionLabel]; ok {
		return v
	}
	return c.Labels[regionLabelKubernetes]
}

func (k BackendKind) takes(t BackendType) bool {
	switch k {
	case LocalOnly:
		return t == Local
	case ProviderOnly:
		return t == Provider
	case AnyBackend:
		return true
	default:
		return false
	}
}

func (f *filter) takes(c *Candidate) bool {
	if !f.kind.takes(c.Type) || !allows(f.names, c.Name) {
		return false
	}
	for i := range f.numbers {
		if !f.numbers[i].holds(c) {
			return false
		}
	}
	if f.trust != 0 && f.trust&trustBit(c.Trust) == 0 {
		return false
	}
	return haveAll(c.Labels, f.labels) && (len(f.regions) == 0 || slices.Contains(f.regions, c.region()))
}

func trustBit(t kvcache.Trust) uint8 { return 1 << min(t, 7) }

func (n *numeric) holds(c *Candidate) bool {
	switch n.of {
	case ofQueued:
		return n.within.holds(float64(c.Queued))
	case ofRunning:
		return n.within.holds(float64(c.Running))
	case ofUsage:
		// What is not a number might be any.
		return math.IsNaN(c.KVUsage) || n.within.holds(c.KVUsage)
	case ofTTFT:
		return n.within.holds(c.PredictedTTFT.Seconds())
	case ofCached:
		return n.within.holds(float64(c.CachedTokens))
	case ofPrice:
		// What nobody can say the price of might cost anything.
		return !c.PriceKnown || math.IsNaN(c.Price) || n.within.holds(c.Price)
	case ofQuota: // which is false of what is not a number
		return c.QuotaKnown && n.within.holds(c.RemainingQuota)
	default:
		return false
	}
}
