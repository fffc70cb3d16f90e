package policy

import (
	"math"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// route checks what a rule does with its requests.
func (k *checker) route(at string, r *Route) {
	if r.Consider != nil && len(r.Consider) == 0 {
		k.err(CodeEmptyConsider, at+".consider", "the list names no candidates",
			"leave it out to consider the backends that serve the requested model")
	}
	for i := range r.Consider {
		k.consider(item(at+".consider", i), &r.Consider[i])
	}
	if r.Exclude != nil && len(r.Exclude) == 0 {
		k.warn(CodeEmptyList, at+".exclude", "the list is empty and excludes nothing", "leave it out")
	}
	k.exclusions(at, r)
	if r.Select != nil && len(r.Select) == 0 {
		k.warn(CodeEmptyList, at+".select", "the list is empty: the lowest predicted TTFT wins", "leave it out if that is meant")
	}
	for i := range r.Select {
		k.stage(item(at+".select", i), &r.Select[i], r)
	}
	k.stages(at, r)
	k.onEmpty(at+".onEmpty", &r.OnEmpty)
}

func (k *checker) consider(at string, c *Consider) {
	if !k.s.sound(at) {
		return
	}
	before := len(k.findings)
	for _, list := range []struct {
		key   string
		names []string
		what  string
	}{
		{".models", c.Models, "model"}, {".workers", c.Workers, "worker"}, {".providers", c.Providers, "provider"},
	} {
		if list.names != nil && len(list.names) == 0 {
			k.err(CodeEmptyConsider, at+list.key+".names", "the list names no "+list.what, "name one, or leave it out")
			continue
		}
		k.names(at+list.key+".names", list.names, list.what)
	}
	k.labelMap(at+".models.labels", c.ModelLabels)
	k.labelMap(at+".workers.labels", c.WorkerLabels)
	if before != len(k.findings) {
		return
	}
	workers := len(c.Workers)+len(c.WorkerLabels) > 0
	switch {
	case workers && len(c.Providers) > 0:
		k.err(CodeContradiction, at, "no backend is a worker and a provider at once, so the item names none", "write two items")
	case len(c.Models)+len(c.ModelLabels)+len(c.Providers) == 0 && !workers:
		k.err(CodeEmptyConsider, at, "the item names no candidates", "name models, workers or providers")
	case k.s.src == nil:
	default:
		for key, n := range map[string]int{".models": len(c.Models) + len(c.ModelLabels), ".workers": len(c.Workers) + len(c.WorkerLabels)} {
			if n == 0 && k.s.written(at+key) {
				k.err(CodeEmptyConsider, at+key, "it names none", "write names or labels, or leave it out")
			}
		}
	}
	k.modelLabels(at, c)
}

// modelLabels checks that labels select a model.
func (k *checker) modelLabels(at string, c *Consider) {
	if len(c.ModelLabels) == 0 || len(k.models(c)) > 0 {
		return
	}
	severity, suggestion := SeverityError, "label models in spec.models"
	if len(c.Models) > 0 {
		suggestion = "of the models that are named, none has them: label it in spec.models, or leave the labels out"
	}
	if k.open && len(k.s.Models) == 0 {
		severity = SeverityWarning
		suggestion = "label models in spec.models, unless whoever loads the policy labels them"
	}
	k.add(severity, CodeUnknownLabels, at+".models.labels", "no model has these labels", suggestion)
}

// models are the models of an item of consider. Of labels it may be those of all
// models, if there is too much to look through.
func (k *checker) models(c *Consider) []string {
	if len(c.ModelLabels) == 0 {
		return c.Models
	}
	if k.known == nil {
		k.known = labelled(k.labels, k.s.Models)
	}
	const most = 1_000_000
	if k.looked += len(k.known); k.looked > most {
		return []string{""}
	}
	return c.models(k.known)
}

func (k *checker) onEmpty(at string, e *OnEmpty) {
	switch {
	case e.Action > NextRule:
		k.err(CodeInvalidValue, at+".action", "there is no such action", "use Reject, Wait or NextRule")
		return
	case !k.s.sound(at):
		return
	}
	const longest = time.Hour
	switch {
	case e.Action == Wait && e.UpTo <= 0:
		path := at + ".upTo"
		if !k.s.written(path) {
			path = at
		}
		k.err(CodeInvalidValue, path, "Wait needs a time, above 0", "write {action: Wait, upTo: 2s}")
	case e.Action == Wait && e.UpTo > longest:
		k.err(CodeInvalidValue, at+".upTo", "no request waits for more than an hour", "")
	case e.Action != Wait && e.UpTo != 0:
		k.warn(CodeNoEffect, at+".upTo", "only Wait waits", "write action: Wait, or leave upTo out")
	}
	written := k.s.src != nil && k.s.written(at+".status")
	if (e.Status != 0 || written) && (e.Status < minStatus || e.Status > maxStatus) {
		k.err(CodeInvalidValue, at+".status", "a rejection has a status from 400 to 599", "429 and 503 are usual")
	}
	if e.Action == NextRule && (e.Status != 0 || e.Message != "") {
		k.warn(CodeNoEffect, at, "NextRule answers nothing, so status and message have no effect", "leave them out")
	}
}

func (k *checker) stage(at string, s *Stage, r *Route) {
	if !k.s.sound(at) {
		return
	}
	if s.Type > ProviderOnly {
		k.err(CodeInvalidValue, at+".type", "there is no such type", "use Local or Provider")
	}
	if s.Minimize > Cost {
		k.err(CodeInvalidValue, at+".minimize", "there is no such metric", "")
	}
	k.order(at, s)
	k.split(at, s)
	if len(s.Order) > 0 && len(s.Weighted) > 0 {
		k.err(CodeContradiction, at, "a stage goes by order or by weighted, not both", "write two stages")
	}
	if s.SwitchOnlyIf != nil {
		k.margin(at+".switchOnlyIf", s.SwitchOnlyIf, r)
	}
}

func (k *checker) order(at string, s *Stage) {
	if s.Order != nil && len(s.Order) == 0 {
		k.err(CodeEmptyList, at+".order", "the list is empty, so the stage has no candidates", "name backends, or leave it out")
	}
	seen := make(map[string]bool, len(s.Order))
	for i, name := range s.Order {
		here := at + ".order"
		if k.s.written(item(here, i)) {
			here = item(here, i)
		}
		switch {
		case name == "":
			k.err(CodeEmptyName, here, "the name is empty", "name a backend")
		case seen[name]:
			k.err(CodeDuplicateInOrder, here, yamlnode.Quote(name)+" is in the order twice", "remove one")
		}
		seen[name] = true
	}
	if len(s.Order) > 0 && k.s.src != nil && k.s.written(at+".minimize") {
		k.add(SeverityNote, CodeMinimizeWithOrder, at+".minimize",
			"the order decides first; minimize decides among backends of one name only", "")
	}
}

// split checks weighted.
func (k *checker) split(at string, s *Stage) {
	if s.Weighted == nil {
		return
	}
	at += ".weighted"
	if len(s.Weighted) == 0 {
		k.err(CodeEmptyList, at, "the list is empty, so the stage has no candidates", "write shares, or leave it out")
		return
	}
	some, sound := false, true
	seen := make(map[string]bool, len(s.Weighted))
	for i := range s.Weighted {
		w, here := &s.Weighted[i], item(at, i)
		k.labelMap(here+".labels", w.Labels)
		key := w.Model + "\x00" + w.Name + "\x00" + labelText(w.Labels)
		switch {
		case w.Weight < 0 || w.Weight > maxShareWeight:
			k.err(CodeInvalidValue, here+".weight", "weights are from 0 to 1000000", "")
			sound = false
		case w.Model == "" && w.Name == "" && len(w.Labels) == 0:
			k.err(CodeEmptyName, here, "the share doesn't say whose it is", "write model, name or labels")
		case seen[key]:
			k.err(CodeDuplicateInOrder, here, "another share is of the same backends", "remove one, and add up the weights")
		case w.Weight == 0:
			k.warn(CodeNoEffect, here+".weight", "the share gets no requests, but as a last resort", "")
		}
		seen[key] = true
		some = some || w.Weight > 0
	}
	if !some && sound {
		k.err(CodeInvalidValue, at, "all weights are 0", "give at least one share a weight above 0")
	}
}

func labelText(labels map[string]string) string {
	var b strings.Builder
	for _, l := range compileLabels(labels) {
		b.WriteString(l.key + "\x00" + l.value + "\x00")
	}
	return b.String()
}

func (k *checker) margin(at string, m *Margin, r *Route) {
	if k.s.src != nil && !k.s.written(at+".fasterBy") {
		return
	}
	switch {
	case m.By < 0:
		k.err(CodeInvalidValue, at+".fasterBy", "the duration is below 0", "")
	case m.Percent < 0 || m.Percent >= percents || math.IsNaN(m.Percent):
		k.err(CodeInvalidValue, at+".fasterBy", "the share must be above 0% and below 100%: nothing is faster by all of the time", "")
	case m.By == 0 && m.Percent == 0:
		k.err(CodeInvalidValue, at+".fasterBy", "the margin is 0", "write how much faster another model must be, such as 200ms or 30%")
	case !r.considersModels():
		k.warn(CodeNoEffect, at, "all candidates are of the requested model, so there is nothing to switch to",
			"name models in consider")
	}
}

// considersModels reports whether candidates may be of another model than the
// requested.
func (r *Route) considersModels() bool {
	for i := range r.Consider {
		if len(r.Consider[i].Models)+len(r.Consider[i].ModelLabels) > 0 {
			return true
		}
	}
	return false
}
