package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/policy"
)

// Caveat is something that a replay can't know.
type Caveat struct {
	// Code identifies it, Count is the decisions that it is about, or what Text says.
	Code  string `json:"code"`
	Count uint64 `json:"count"`
	Text  string `json:"text"`
}

// blindness counts what was not recorded and may matter.
type blindness struct {
	policy policy.Policy
	needs  policy.Needs
	scope  policy.Scoped // nil: candidates are those of the requested model

	sample  int
	hashed  bool
	lost    uint64
	damaged int
	strayed int // outcomes whose decision is not in the log

	recorded   map[string][]string // headers, by run
	headers    int
	headNames  []string
	tags       int
	tagNames   []string
	models     int
	modelNames []string
	features   int
	relayed    int
	busy       int
	lengthless int
	priceless  int
	names      []string // scratch
}

func (b *blindness) start(p policy.Policy) {
	b.policy, b.recorded = p, map[string][]string{}
	if needy, ok := p.(policy.Needy); ok {
		b.needs = needy.Needs()
	}
	b.scope, _ = p.(policy.Scoped)
}

func (b *blindness) decision(v *verdict, c *Config, run string) {
	d := v.d
	missing := false
	for _, name := range b.needs.Headers {
		if !slices.Contains(b.recorded[run], name) {
			b.headNames, missing = note(b.headNames, name), true
		}
	}
	if missing {
		b.headers++
	}
	missing = false
	for _, name := range b.needs.Tags {
		if !slices.ContainsFunc(d.Request.Tags, func(t policy.Tag) bool { return t.Name == name }) {
			b.tagNames, missing = note(b.tagNames, name), true
		}
	}
	if missing {
		b.tags++
	}
	if b.scope != nil && b.ungathered(v) {
		b.models++
	}
	if v.busy {
		b.busy++
	}
	if c.Predictor == nil {
		return
	}
	if !v.predicted {
		b.features++
	}
	if v.kept > 0 {
		b.relayed++
	}
}

// ungathered reports whether the policy would also have looked at models of which no
// candidate was recorded.
func (b *blindness) ungathered(v *verdict) (some bool) {
	b.names = b.scope.Models(&v.d.Request, b.names[:0])
	for _, name := range b.names {
		if !slices.ContainsFunc(v.candidates, func(c policy.Candidate) bool { return c.Model == name }) {
			b.modelNames, some = note(b.modelNames, name), true
		}
	}
	return some
}

// note adds a name to those that a caveat lists.
func note(names []string, name string) []string {
	const most = 8
	if len(names) >= most || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

func list(names []string) string {
	names = slices.Sorted(slices.Values(names))
	for i := range names {
		names[i] = fmt.Sprintf("%q", clip(names[i]))
	}
	return strings.Join(names, ", ")
}

// clip keeps what a client chose from flooding a report.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// caveats lists what applies.
func (t *tally) caveats() []Caveat {
	b := &t.blind
	all := []Caveat{}
	add := func(code string, n uint64, text string, args ...any) {
		if n > 0 {
			all = append(all, Caveat{code, n, fmt.Sprintf(text, args...)})
		}
	}
	add("state", uint64(t.all.changed), "decisions would have gone another way, and caches and load with them: each decision "+
		"is judged as if it alone were different, on what was cached and waiting at that time")
	add("retries", uint64(t.retries), "decisions are later attempts: they are judged without the workers that had failed, "+
		"which the replay might not have tried")
	add("busy", uint64(b.busy), "requests were refused because all workers were busy, or for another reason that is no policy's: "+
		"they count as refused again")
	add("models", uint64(b.models), "decisions would have looked at models of which no candidate was recorded, "+
		"not asked for then or not served: %s", list(b.modelNames))
	add("headers", uint64(b.headers), "decisions were made again without headers that the policy asks about and that are not recorded; "+
		"they count as absent: %s", list(b.headNames))
	add("tags", uint64(b.tags), "decisions have no word on tags that the policy asks about, and these count as unknown: %s", list(b.tagNames))
	if b.hashed {
		add("hashed", uint64(t.all.decisions), "decisions have hashes for names of tenants or for labels: conditions on these don't hold")
	}
	add("prefill", uint64(t.prefill), "decisions would have had their prompts computed by another worker than was recorded; "+
		"what that would have meant for the worker that answers is not counted")
	add("features", uint64(b.features), "decisions have no features: their predictions are as recorded")
	add("relayed", uint64(b.relayed), "decisions have candidates whose prompt another worker was to compute: "+
		"the predictions for these are as recorded")
	if b.sample > 1 {
		add("sample", uint64(b.sample), "is the number of requests of which one was recorded")
	}
	add("lost", b.lost, "entries are missing in the log: the recorder says that it lost them")
	add("damaged", uint64(b.damaged), "lines could not be read")
	add("strayed", uint64(b.strayed), "outcomes belong to decisions that are not in the log")
	if t.priced() {
		add("lengths", uint64(b.lengthless), "ended requests have no usage reported: their cost is not counted")
		add("prices", uint64(b.priceless), "ended requests have a candidate without a price: their cost is not counted")
	}
	return all
}

// priced reports whether anything is known of costs.
func (t *tally) priced() bool { return t.cfg.Prices != nil || t.all.costed > 0 }
