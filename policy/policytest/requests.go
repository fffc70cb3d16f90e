package policytest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/policy"
)

// asked is a request to try, and what is out of the ordinary about it.
type asked struct {
	policy.Request

	differs []string
}

// The names that no policy mentions.
const (
	otherModel  = "another-model"
	otherTenant = "another-tenant"
	otherClass  = "another-class"
	otherPool   = "another-pool"
)

// unmentioned is a name that is not among those that a policy mentions.
func unmentioned(name string, mentioned []string) string {
	for slices.Contains(mentioned, name) {
		name += "-x"
	}
	return name
}

// otherAPI is one of those that there are that is not mentioned, or none, as of requests
// that are forwarded without a prompt.
func otherAPI(mentioned []string) string {
	for _, api := range []string{"embeddings", "chat", "completions", "messages", "responses"} {
		if !slices.Contains(mentioned, api) {
			return api
		}
	}
	return ""
}

// otherValue is a value that none of the conditions on a header speaks of.
func otherValue(list []policy.HeaderMatch) string {
	spoken := func(value string) bool {
		return slices.ContainsFunc(list, func(h policy.HeaderMatch) bool {
			return value == h.Value || h.Prefix != "" && strings.HasPrefix(value, h.Prefix)
		})
	}
	value := "other"
	for c := 'a'; c <= 'z' && spoken(value); c++ {
		value = string(c) + "-other"
	}
	return value
}

// change makes a request differ in one thing; a nil apply is the ordinary.
type change struct {
	text  string
	apply func(*policy.Request)
}

// requestsOf are all requests that the policy tells apart, the simplest first.
func requestsOf(m *policy.Mentions) []asked {
	list := []asked{{Request: policy.Request{Model: unmentioned(otherModel, m.Models), API: "chat", PromptTokens: 1000, Attempt: 1, Draw: 1}}}
	for _, axis := range axesOf(m) {
		var next []asked
		for i := range list {
			for _, c := range axis {
				a := list[i]
				a.Tags = slices.Clone(a.Tags)
				a.differs = slices.Clone(a.differs)
				if c.apply != nil {
					c.apply(&a.Request)
				}
				if c.text != "" {
					a.differs = append(a.differs, c.text)
				}
				next = append(next, a)
			}
		}
		list = next
	}
	slices.SortStableFunc(list, func(a, b asked) int { return cmp.Compare(len(a.differs), len(b.differs)) })
	return list
}

func extraRequests(list []policy.Request) []asked {
	out := make([]asked, 0, len(list))
	for i := range list {
		out = append(out, asked{list[i], []string{fmt.Sprintf("request %d of the Space", i)}})
	}
	return out
}

// axesOf lists what requests may differ in: for each thing the ordinary first.
func axesOf(m *policy.Mentions) (axes [][]change) {
	names := func(what string, mentioned []string, other string, set func(*policy.Request, string)) {
		if len(mentioned) == 0 {
			return
		}
		axis := []change{{apply: func(r *policy.Request) { set(r, other) }}}
		for _, name := range mentioned {
			if name != other {
				axis = append(axis, change{what + " " + name, func(r *policy.Request) { set(r, name) }})
			}
		}
		axes = append(axes, axis)
	}
	names("model", m.Models, unmentioned(otherModel, m.Models), func(r *policy.Request, s string) { r.Model = s })
	names("api", m.APIs, otherAPI(m.APIs), func(r *policy.Request, s string) { r.API = s })
	names("tenant", m.Tenants, unmentioned(otherTenant, m.Tenants), func(r *policy.Request, s string) { r.Tenant = s })
	names("class of service", m.QoS, unmentioned(otherClass, m.QoS), func(r *policy.Request, s string) { r.QoS = s })
	names("pool", m.Pools, unmentioned(otherPool, m.Pools), func(r *policy.Request, s string) { r.Pool = s })
	for _, tag := range m.Tags {
		state := func(t policy.Tag) func(*policy.Request) {
			return func(r *policy.Request) { r.Tags = append(r.Tags, t) }
		}
		axes = append(axes, []change{
			{apply: state(Absent(tag))}, {tag + " unknown", state(Unknown(tag))}, {tag + " present", state(Present(tag))},
		})
	}
	if m.Session {
		axes = append(axes, []change{{}, {"in a session", func(r *policy.Request) { r.Session = true }}})
	}
	axes = append(axes, headerAxes(m.Headers)...)
	if len(m.PromptTokens) > 0 {
		axis := []change{{"prompt tokens not known", func(r *policy.Request) { r.PromptTokens = 0 }}}
		for _, n := range around(m.PromptTokens, 1) {
			if n >= 1 {
				axis = append(axis, change{fmt.Sprintf("%v prompt tokens", n), func(r *policy.Request) { r.PromptTokens = int(n) }})
			}
		}
		axes = append(axes, axis)
	}
	if m.Weighted {
		const draws = 16 // every share is reachable with any draw, but not as the first
		var axis []change
		for i := range uint64(draws) {
			axis = append(axis, change{fmt.Sprintf("draw %d", i), func(r *policy.Request) { r.Draw = i }})
		}
		axis[0].text = ""
		axes = append(axes, axis)
	}
	return axes
}

// headerAxes: each header is absent, has each value that is mentioned, or another.
func headerAxes(list []policy.HeaderMatch) (axes [][]change) {
	for start := 0; start < len(list); {
		name := list[start].Name
		set := func(value string) func(*policy.Request) {
			return func(r *policy.Request) {
				header := map[string][]string{name: {value}}
				maps.Copy(header, r.Header) // which is shared with other requests
				r.Header = header
			}
		}
		end := start
		for end < len(list) && list[end].Name == name {
			end++
		}
		other := otherValue(list[start:end])
		axis := []change{{}, {"header " + name + ": " + other, set(other)}}
		for ; start < len(list) && list[start].Name == name; start++ {
			value := cmp.Or(list[start].Value, list[start].Prefix)
			if value != "" {
				axis = append(axis, change{"header " + name + ": " + value, set(value)})
			}
		}
		axes = append(axes, axis)
	}
	return axes
}

// around are numbers on both sides of thresholds, and the thresholds. step is how far
// beside; 0 means a share of the threshold.
func around(thresholds []float64, step float64) []float64 {
	var out []float64
	for _, t := range thresholds {
		by := step
		if by == 0 {
			by = max(math.Abs(t)/1000, 1e-9)
		}
		out = append(out, t-by, t, t+by)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
