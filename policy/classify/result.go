package classify

import (
	"slices"

	"github.com/kvsteer/kvsteer/policy"
)

// Kind names what was found, such as "card" or "email".
type Kind string

// MaxPlaces bounds the places that a [Finding] tells.
const MaxPlaces = 4

// Place is where something was found: Offset bytes into the text of the Part'th
// of [Input.Parts].
type Place struct {
	Part   int `json:"part"`
	Offset int `json:"offset"`
}

// Finding says what was found, how often, and where first; never the text.
type Finding struct {
	Tag  string `json:"tag"`
	Kind Kind   `json:"kind"`
	// Count is how often it was found, at least 1.
	Count int `json:"count"`
	// First holds the first places, at most [MaxPlaces]. A service that doesn't
	// say where leaves it empty.
	First []Place `json:"first,omitempty"`
}

// Result is what classifiers say about a request. The zero value says nothing,
// so that every tag is unknown. It is not safe for concurrent use.
type Result struct {
	Tags     []policy.Tag `json:"tags"`
	Findings []Finding    `json:"findings,omitempty"`
}

// Reset empties r and keeps its memory.
func (r *Result) Reset() {
	clear(r.Tags)
	clear(r.Findings)
	r.Tags, r.Findings = r.Tags[:0], r.Findings[:0]
}

// State returns the state of a tag, unknown if nothing was said about it.
func (r *Result) State(tag string) policy.TagState {
	for i := range r.Tags {
		if r.Tags[i].Name == tag {
			return r.Tags[i].State
		}
	}
	return policy.TagUnknown
}

// Set says that a tag is in a state, whatever was said before.
func (r *Result) Set(tag string, state policy.TagState) {
	for i := range r.Tags {
		if r.Tags[i].Name == tag {
			r.Tags[i].State = state
			return
		}
	}
	r.Tags = append(r.Tags, policy.Tag{Name: tag, State: state})
}

// Find adds to what was found. It does not set the tag. Places beyond
// [MaxPlaces] are counted only.
func (r *Result) Find(tag string, kind Kind, at Place) {
	f := r.finding(tag, kind)
	f.Count++
	if len(f.First) < MaxPlaces {
		f.First = append(f.First, at)
	}
}

func (r *Result) finding(tag string, kind Kind) *Finding {
	for i := range r.Findings {
		if r.Findings[i].Kind == kind && r.Findings[i].Tag == tag {
			return &r.Findings[i]
		}
	}
	r.Findings = append(r.Findings, Finding{Tag: tag, Kind: kind})
	return &r.Findings[len(r.Findings)-1]
}

// has reports whether something was said about a tag, be it that it is unknown.
func (r *Result) has(tag string) bool {
	return slices.ContainsFunc(r.Tags, func(t policy.Tag) bool { return t.Name == tag })
}

// add puts the findings of another result, whose parts begin at ours from first
// on, to those of r. Nothing of other is kept.
func (r *Result) add(other []Finding, first int) {
	for i := range other {
		from := &other[i]
		f := r.finding(from.Tag, from.Kind)
		f.Count += from.Count
		for _, p := range from.First {
			if len(f.First) == MaxPlaces {
				break
			}
			f.First = append(f.First, Place{Part: p.Part + first, Offset: p.Offset})
		}
	}
}

// worse combines two states of one tag: one classifier that found something is
// enough, and all of them must have looked before it is absent.
func worse(a, b policy.TagState) policy.TagState {
	switch {
	case a == policy.TagPresent || b == policy.TagPresent:
		return policy.TagPresent
	case a == policy.TagAbsent && b == policy.TagAbsent:
		return policy.TagAbsent
	default:
		return policy.TagUnknown
	}
}
