package policy

import (
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// rule checks a rule by itself.
func (k *checker) rule(i int) {
	r := &k.s.Rules[i]
	at := item("spec.rules", i)
	if r.Matches != nil && len(r.Matches) == 0 {
		k.warn(CodeEmptyList, at+".matches", "the list is empty: the rule is about every request", "leave it out if that is meant")
	}
	for j := range r.Matches {
		k.match(item(at+".matches", j), &r.Matches[j], len(r.Matches) > 1)
	}
	k.route(at+".route", &r.Route)
	k.lost(i)
	k.opens(i)
	if r.Route.OnEmpty.Action == NextRule && i == len(k.s.Rules)-1 {
		k.warn(CodeLastNextRule, at+".route.onEmpty", "there is no next rule in this policy",
			"without another policy that matches, local workers that serve the requested model are taken: say Reject, or add a rule")
	}
}

func (k *checker) match(at string, m *Match, several bool) {
	if m.isZero() && k.s.sound(at) {
		message := "the item has no conditions and holds for every request"
		if several {
			message += ", so that the other items change nothing"
		}
		k.warn(CodeEmptyMatch, at, message, "leave matches out if that is meant")
	}
	k.names(at+".model", m.Model, "model")
	k.names(at+".tag", m.Tag, "tag")
	k.names(at+".tenant", m.Tenant, "tenant")
	k.names(at+".qos", m.QoS, "class of service")
	k.words(at+".api", m.API, apiNames(), "API")
	k.headers(at+".header", m.Header)
	k.interval(at+".promptTokens", m.PromptTokens, counts)
	k.interval(at+".queuedPrompts", m.QueuedPrompts, counts)
	k.interval(at+".kvCacheUsage", m.KVCacheUsage, shares)
	k.interval(at+".healthyWorkers", m.HealthyWorkers, counts)
	k.unknown(at, m.OnUnknown, m.Tag)
}

// isZero reports whether nothing is set.
func (m *Match) isZero() bool {
	return m.Model == nil && m.Tag == nil && m.Tenant == nil && m.QoS == nil && m.API == nil && m.Header == nil && m.Session == nil &&
		m.PromptTokens.isZero() && m.QueuedPrompts.isZero() && m.KVCacheUsage.isZero() && m.HealthyWorkers.isZero()
}

func (k *checker) unknown(at string, u OnUnknown, tags []string) {
	if u > UnknownPresent {
		k.err(CodeInvalidValue, at+".onUnknown", "there is no such choice", "use Present or Absent")
	}
	if u != UnknownDefault && len(tags) == 0 && k.s.sound(at) {
		k.warn(CodeNoEffect, at+".onUnknown", "onUnknown is about tags, and no tag is asked for", "remove it, or name a tag")
	}
}

func (k *checker) condition(at string, c *Condition) {
	if c.isZero() && k.s.src != nil && k.s.written(at) && k.s.sound(at) {
		k.warn(CodeNoEffect, at, "the condition is empty and always holds", "leave it out if that is meant")
	}
	k.names(at+".tag", c.Tag, "tag")
	k.names(at+".tenant", c.Tenant, "tenant")
	k.names(at+".qos", c.QoS, "class of service")
	k.headers(at+".header", c.Header)
	k.unknown(at, c.OnUnknown, c.Tag)
}

func (c *Condition) isZero() bool {
	return c.Tag == nil && c.Tenant == nil && c.QoS == nil && c.Header == nil
}

func (k *checker) headers(at string, list []HeaderMatch) {
	if list != nil && len(list) == 0 {
		k.err(CodeEmptyList, at, "the list is empty", "write a condition, or leave it out")
	}
	absent, present := make(map[string]bool), make(map[string]bool)
	for i := range list {
		h, here := &list[i], item(at, i)
		if k.s.src != nil && !k.s.written(here) {
			here = at // a single one is not written as a list
		}
		if !k.s.sound(here) {
			continue
		}
		k.header(here, h)
		name := http.CanonicalHeaderKey(h.Name)
		if h.Absent {
			absent[name] = true
		} else {
			present[name] = true
		}
		if absent[name] && present[name] {
			k.err(CodeContradiction, here, "header "+yamlnode.Quote(name)+" must be absent and there at once", "remove one condition")
		}
	}
}

func (k *checker) header(at string, h *HeaderMatch) {
	if !isToken(h.Name) {
		k.err(CodeInvalidValue, at+".name", yamlnode.Quote(h.Name)+" is no name of a header", "names have letters, digits and -")
	}
	switch http.CanonicalHeaderKey(h.Name) {
	case "Host", "Trailer", "Transfer-Encoding":
		k.warn(CodeNoEffect, at+".name", "net/http keeps "+yamlnode.Quote(h.Name)+" apart from the headers: to a policy it is absent",
			"have the gateway say it in a header of its own")
	default:
	}
	set := 0
	for _, one := range []bool{h.Value != "", h.Prefix != "", h.Absent} {
		if one {
			set++
		}
	}
	if set > 1 {
		k.err(CodeContradiction, at, "value, prefix and absent: true exclude each other", "keep one")
	}
	for _, key := range []string{".value", ".prefix"} {
		if k.s.src != nil && k.s.written(at+key) && (key == ".value" && h.Value == "" || key == ".prefix" && h.Prefix == "") {
			k.err(CodeEmptyName, at+key, "an empty text can't be asked for", "leave it out to ask that the header is there")
		}
	}
}

// isToken reports whether s can be the name of a header (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return s != ""
}
