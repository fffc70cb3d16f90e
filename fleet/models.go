package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Model is one model that a member serves.
type Model struct {
	// Name is what a request puts in its "model" field.
	Name string
	// Parent is the base model's name if this is a LoRA adapter, else "".
	Parent string
	// Root is the path or repository the engine loaded it from, "" if unknown.
	Root string
	// MaxModelLen is the longest context in tokens; 0 if unknown. An adapter has
	// its parent's.
	MaxModelLen int
}

// served is what one member serves. It is immutable.
type served struct {
	models []Model // by name
	byName map[string]int
	// known is false until the models were declared or reported.
	known bool
}

func newServed(models []Model, known bool) *served {
	slices.SortFunc(models, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	models = slices.CompactFunc(models, func(a, b Model) bool { return a.Name == b.Name })
	s := &served{models: models, byName: make(map[string]int, len(models)), known: known}
	for i := range models {
		s.byName[models[i].Name] = i
	}
	return s
}

func declared(names []string) *served {
	models := make([]Model, len(names))
	for i, n := range names {
		models[i] = Model{Name: n}
	}
	return newServed(models, len(names) > 0)
}

func (s *served) equal(o *served) bool {
	return s == o || s.known == o.known && slices.Equal(s.models, o.models)
}

// modelList is the answer of /v1/models, as far as we read it.
type modelList struct {
	Data []struct {
		ID          string  `json:"id"`
		OwnedBy     string  `json:"owned_by"`
		Root        *string `json:"root"`
		Parent      *string `json:"parent"`
		MaxModelLen *int64  `json:"max_model_len"`
	} `json:"data"`
}

const (
	// maxReportedModels bounds the adapters of one engine.
	maxReportedModels = 1 << 14
	// maxModelLen is above any context window; more is a broken answer.
	maxModelLen = 1 << 30
)

// parseModels reads an answer of /v1/models. Entries with an unusable name are
// skipped.
func parseModels(body []byte) (models []Model, engine Engine, err error) {
	var list modelList
	if err := json.Unmarshal(body, &list); err != nil {
		// The decoder's text may quote the body.
		return nil, EngineAuto, errors.New("the answer of /v1/models is not a JSON model list")
	}
	if len(list.Data) > maxReportedModels {
		return nil, EngineAuto, fmt.Errorf("/v1/models lists %d models, more than %d", len(list.Data), maxReportedModels)
	}
	models = make([]Model, 0, len(list.Data))
	for i := range list.Data {
		d := &list.Data[i]
		if d.ID == "" || textProblem(d.ID, maxModelBytes) != "" {
			continue
		}
		m := Model{Name: d.ID}
		if d.Root != nil && textProblem(*d.Root, maxURLBytes) == "" {
			m.Root = *d.Root
		}
		if d.Parent != nil && textProblem(*d.Parent, maxModelBytes) == "" && *d.Parent != d.ID {
			m.Parent = *d.Parent
		}
		if d.MaxModelLen != nil && *d.MaxModelLen > 0 && *d.MaxModelLen <= maxModelLen {
			m.MaxModelLen = int(*d.MaxModelLen)
		}
		models = append(models, m)
		if engine == EngineAuto {
			engine = engineByOwner(d.OwnedBy)
		}
	}
	inheritLengths(models)
	return models, engine, nil
}

// inheritLengths gives adapters the context length of their base.
func inheritLengths(models []Model) {
	lengths := make(map[string]int, len(models))
	for _, m := range models {
		if m.Parent == "" {
			lengths[m.Name] = m.MaxModelLen
		}
	}
	for i := range models {
		if m := &models[i]; m.MaxModelLen == 0 && m.Parent != "" {
			m.MaxModelLen = lengths[m.Parent]
		}
	}
}

// reconcile settles what a member serves from what was declared and what the
// engine reports, and says what doesn't fit.
func reconcile(names []string, reported []Model) (s *served, problem string) {
	if len(names) == 0 {
		return newServed(slices.Clone(reported), true), ""
	}
	byName := make(map[string]Model, len(reported))
	for _, m := range reported {
		byName[m.Name] = m
	}
	models := make([]Model, 0, len(names))
	var missing []string
	for _, n := range names {
		m, ok := byName[n]
		if !ok {
			m = Model{Name: n}
			missing = append(missing, n)
		}
		models = append(models, m)
	}
	switch {
	case len(missing) == 0:
		return newServed(models, true), ""
	case len(missing) == len(names):
		// Nothing in common: another engine has this address now. It must not get
		// requests meant for the declared one.
		return newServed(nil, true), fmt.Sprintf("serves none of its declared models (%s): correct models, or the url",
			abbreviate(names))
	default:
		// Some engines load adapters on demand and list them only then, so that the
		// declaration stands.
		return newServed(models, true), fmt.Sprintf("declares models that the engine doesn't list (%s): "+
			"requests for them may fail unless it loads them on demand", abbreviate(missing))
	}
}

// otherBases reports whether two answers of one address have base models, and
// none in common: the sign of another engine at a reused address.
func otherBases(before, after []Model) bool {
	bases := make(map[string]bool)
	for _, m := range before {
		if m.Parent == "" {
			bases[m.Name] = true
		}
	}
	found := false
	for _, m := range after {
		if m.Parent == "" {
			if bases[m.Name] {
				return false
			}
			found = true
		}
	}
	return found && len(bases) > 0
}

// abbreviate lists the first few names.
func abbreviate(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
