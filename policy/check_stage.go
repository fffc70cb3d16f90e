package policy

import (
	"cmp"
	"maps"
	"slices"
)

// cell is a set of candidates: those that have all that is set in it. Stages, what a
// rule considers and what it drops are unions of cells, which can be compared: of two
// stages whether one takes all that the other does.
type cell struct {
	kind        BackendKind
	name, model string // "" for any
	labels      map[string]string
}

// covers reports whether every candidate of other is one of c. It may miss some, where
// other is empty.
func (c *cell) covers(other *cell) bool {
	if c.kind != AnyBackend && c.kind != other.kind || c.name != "" && c.name != other.name ||
		c.model != "" && c.model != other.model {
		return false
	}
	for key, value := range c.labels {
		if v, ok := other.labels[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// meets reports whether a candidate may be in both. It may be wrong about that, not
// about the contrary.
func (c *cell) meets(other *cell) bool {
	if c.kind != AnyBackend && other.kind != AnyBackend && c.kind != other.kind {
		return false
	}
	if c.name != "" && other.name != "" && c.name != other.name || c.model != "" && other.model != "" && c.model != other.model {
		return false
	}
	for key, value := range c.labels {
		if v, ok := other.labels[key]; ok && v != value {
			return false
		}
	}
	return true
}

// maxCells bounds what is compared: each with each.
const maxCells = 120

// stages finds those of a rule that never have a candidate.
func (k *checker) stages(at string, r *Route) {
	if !k.s.sound(at) || len(r.Select) == 0 {
		return
	}
	considered := k.considered(r)
	dropped := r.droppedCells()
	var earlier []cell
	for i := range r.Select {
		here := item(at+".select", i)
		cells := r.Select[i].cells()
		if len(cells) == 0 || len(cells)+len(earlier)+len(considered)+len(dropped) > maxCells {
			return // that it has none is said elsewhere
		}
		var rest []cell
		for j := range cells {
			for _, c := range within(considered, &cells[j]) {
				if !coversAny(dropped, &c) {
					rest = append(rest, c)
				}
			}
		}
		switch {
		case len(rest) == 0:
			k.err(CodeEmptyStage, here, "no candidate is one of the stage's: what it takes is not considered, or excluded from every request",
				"remove the stage, or change consider or exclude")
		case !slices.ContainsFunc(rest, func(c cell) bool { return !coversAny(earlier, &c) }):
			k.err(CodeUnreachableStage, here, "the stage is never reached: the stages before it take all that it could",
				"remove it, or put it before them")
		}
		earlier = append(earlier, cells...)
	}
}

// within returns what of c is considered: of each considered cell the part that is in
// c. considered is nil for all.
func within(considered []cell, c *cell) []cell {
	if considered == nil {
		return []cell{*c}
	}
	var out []cell
	for i := range considered {
		other := &considered[i]
		if !c.meets(other) {
			continue
		}
		both := cell{
			kind: max(c.kind, other.kind), // AnyBackend is the least
			name: cmp.Or(c.name, other.name), model: cmp.Or(c.model, other.model),
			labels: make(map[string]string, len(c.labels)+len(other.labels)),
		}
		maps.Copy(both.labels, c.labels)
		maps.Copy(both.labels, other.labels)
		out = append(out, both)
	}
	return out
}

func coversAny(cells []cell, c *cell) bool {
	return slices.ContainsFunc(cells, func(other cell) bool { return other.covers(c) })
}

// cells are the candidates that the stage takes. Each is of one type, so that two
// stages of one type each cover one of both.
func (s *Stage) cells() []cell {
	var cells []cell
	kinds := []BackendKind{s.Type}
	if s.Type == AnyBackend {
		kinds = []BackendKind{LocalOnly, ProviderOnly}
	}
	for _, kind := range kinds {
		switch {
		case s.Order != nil:
			for _, name := range s.Order {
				cells = append(cells, cell{kind: kind, name: name})
			}
		case s.Weighted != nil:
			for _, w := range s.Weighted {
				cells = append(cells, cell{kind: kind, name: w.Name, model: w.Model, labels: w.Labels})
			}
		default:
			cells = append(cells, cell{kind: kind})
		}
	}
	return cells
}

// considered are the rule's candidates, nil for all.
func (k *checker) considered(r *Route) []cell {
	var cells []cell
	for i := range r.Consider {
		c := &r.Consider[i]
		models := k.models(c)
		if len(models) == 0 {
			models = []string{""} // the requested one, or labels that are not known here
		}
		base := cell{}
		names := []string{""}
		switch {
		case len(c.Workers)+len(c.WorkerLabels) > 0:
			base.kind, base.labels = LocalOnly, maps.Clone(c.WorkerLabels)
			if len(c.Workers) > 0 {
				names = c.Workers
			}
		case len(c.Providers) > 0:
			base.kind, names = ProviderOnly, c.Providers
		}
		if len(models)*len(names)+len(cells) > maxCells {
			return nil
		}
		for _, m := range models {
			for _, n := range names {
				one := base
				one.model, one.name = m, n
				cells = append(cells, one)
			}
		}
	}
	return cells
}

// droppedCells are candidates that no request gets, whatever their state.
func (r *Route) droppedCells() []cell {
	var cells []cell
	for i := range r.Exclude {
		x := &r.Exclude[i]
		if !x.If.isZero() || x.Drop.state() > 0 || len(x.Drop.Region) > 0 {
			continue
		}
		names := x.Drop.Name
		if len(names) == 0 {
			names = []string{""}
		}
		for _, n := range names {
			cells = append(cells, cell{kind: x.Drop.Type, name: n, labels: x.Drop.Labels})
		}
		if len(cells) > maxCells {
			return cells[:maxCells]
		}
	}
	return cells
}
