package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache"
)

// The conditions of policies in words, for plans and explanations: the words of the
// file, in its order, so that they can be found there.

// words collects what is set, separated by commas.
type words struct{ list []string }

func (w *words) String() string { return strings.Join(w.list, ", ") }

func (w *words) add(s string) { w.list = append(w.list, s) }

// any adds a list of which any one will do.
func (w *words) any(what string, names []string) {
	if len(names) > 0 {
		w.add(what + " " + strings.Join(names, " or "))
	}
}

func (w *words) tags(t *tags) {
	if len(t.names) == 0 {
		return
	}
	s := "tag " + strings.Join(t.names, " or ")
	if t.unknown {
		s += " (or not known)"
	}
	w.add(s)
}

func (w *words) within(what string, r *interval, unit string) {
	if r.hasAbove {
		w.add(what + " > " + plain(r.above) + unit)
	}
	if r.hasBelow {
		w.add(what + " < " + plain(r.below) + unit)
	}
}

func (w *words) labels(what string, labels []label) {
	for _, l := range labels {
		w.add(what + " " + l.key + "=" + l.value)
	}
}

func (w *words) headers(headers []header) {
	for i := range headers {
		h := &headers[i]
		s := "header " + h.name
		if h.value != "" {
			s += " = " + strconv.Quote(h.value)
		}
		if h.prefix != "" {
			s += " = " + strconv.Quote(h.prefix) + "..."
		}
		if h.absent {
			s += " absent"
		}
		w.add(s)
	}
}

func plain(x float64) string {
	const bits = 64
	return strconv.FormatFloat(x, 'f', -1, bits)
}

// String returns "Local" or "Provider", or "any".
func (k BackendKind) String() string {
	switch k {
	case LocalOnly:
		return Local.String()
	case ProviderOnly:
		return Provider.String()
	case AnyBackend:
		return "any"
	default:
		return invalid
	}
}

const invalid = "invalid"

// String returns the metric's name in policy files.
func (m Metric) String() string {
	switch m {
	case PredictedTTFT:
		return "PredictedTTFT"
	case PredictedE2E:
		return "PredictedE2E"
	case QueuedPrompts:
		return "QueuedPrompts"
	case KVCacheUsage:
		return "KVCacheUsage"
	case Cost:
		return "Cost"
	default:
		return invalid
	}
}

// String returns the mode's name in policy files.
func (m Mode) String() string {
	switch m {
	case Enforce:
		return "Enforce"
	case Shadow:
		return "Shadow"
	default:
		return invalid
	}
}

// String returns the action's name in policy files.
func (a Action) String() string {
	switch a {
	case Reject:
		return "Reject"
	case Wait:
		return "Wait"
	case NextRule:
		return "NextRule"
	default:
		return invalid
	}
}

// String says it in words.
func (e OnEmpty) String() string {
	s := e.Action.String()
	switch e.Action {
	case Reject:
		if e.Status != 0 {
			s += " with status " + strconv.Itoa(e.Status)
		}
		if e.Message != "" {
			s += ": " + e.Message
		}
	case Wait:
		if e.UpTo > 0 {
			s += " up to " + e.UpTo.String()
		}
		s += ", then Reject"
	case NextRule:
	default:
	}
	return s
}

func (m *match) String() string {
	var w words
	w.any("model", m.models)
	w.any("api", m.apis)
	w.any("tenant", m.tenants)
	w.any("qos", m.qos)
	switch {
	case m.session > 0:
		w.add("session")
	case m.session < 0:
		w.add("no session")
	}
	w.tags(&m.tags)
	w.headers(m.headers)
	w.within("promptTokens", &m.tokens, "")
	w.within("queuedPrompts", &m.queued, "")
	w.within("kvCacheUsage", &m.usage, "")
	w.within("healthyWorkers", &m.workers, "")
	if len(w.list) == 0 {
		return "every request"
	}
	return w.String()
}

func (k *consider) String() string {
	var w words
	if k.models != nil {
		w.add("models " + strings.Join(k.models, " or "))
	} else {
		w.add("the requested model")
	}
	w.any("workers", k.workers)
	w.labels("workers with", k.labels)
	w.any("providers", k.providers)
	return w.String()
}

// String is the name, then what is dropped, then of which requests.
func (x *exclusion) String() string {
	s := x.name + ": " + x.drop.String()
	if when := x.when.String(); when != "" {
		s += ", if " + when
	}
	return s
}

func (c *condition) String() string {
	var w words
	w.tags(&c.tags)
	w.any("tenant", c.tenants)
	w.any("qos", c.qos)
	w.headers(c.headers)
	return w.String()
}

func (f *filter) String() string {
	var w words
	if f.kind != AnyBackend {
		w.add("type " + f.kind.String())
	}
	w.any("name", f.names)
	w.labels("label", f.labels)
	w.any("region", f.regions)
	for i := range f.numbers {
		name, unit := f.numbers[i].of.words()
		w.within(name, &f.numbers[i].within, unit)
	}
	var states []string
	for t := kvcache.Blind; t <= kvcache.Exact; t++ {
		if f.trust&trustBit(t) != 0 {
			states = append(states, t.String())
		}
	}
	w.any("trust", states)
	if len(w.list) == 0 {
		return "every candidate"
	}
	return w.String()
}

// words returns the quantity's name in policy files and its unit.
func (q quantity) words() (name, unit string) {
	switch q {
	case ofQueued:
		return "queuedPrompts", ""
	case ofRunning:
		return "runningRequests", ""
	case ofUsage:
		return "kvCacheUsage", ""
	case ofTTFT:
		return "predictedTTFT", "s"
	case ofCached:
		return "cachedTokens", ""
	case ofPrice:
		return "price", " USD"
	case ofQuota:
		return "remainingQuota", ""
	default:
		return invalid, ""
	}
}

func (s *stage) String() string {
	var w words
	if s.kind != AnyBackend {
		w.add("type " + s.kind.String())
	}
	if len(s.order) > 0 {
		w.add("order " + strings.Join(s.order, " before "))
	}
	shares := make([]string, 0, len(s.shares))
	for i := range s.shares {
		shares = append(shares, s.shares[i].String())
	}
	if len(shares) > 0 {
		w.add("weighted " + strings.Join(shares, ", "))
	}
	if s.metric != PredictedTTFT || len(s.order) == 0 && len(s.shares) == 0 {
		w.add("minimize " + s.metric.String())
	}
	if s.lead != nil {
		w.add("switchOnlyIf faster by " + s.lead.String())
	}
	return w.String()
}

func (s *share) String() string {
	var w words
	w.any("model", compact(s.model))
	w.any("name", compact(s.name))
	w.labels("label", s.labels)
	return strconv.FormatUint(s.weight, 10) + " to " + strings.Join(w.list, " and ")
}

// compact is a list of what isn't empty.
func compact(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

func (m *lead) String() string {
	var list []string
	if m.by > 0 {
		list = append(list, m.by.String())
	}
	if m.percent > 0 {
		list = append(list, plain(m.percent)+"%")
	}
	if len(list) == 0 {
		return "anything"
	}
	return strings.Join(list, " and ")
}
