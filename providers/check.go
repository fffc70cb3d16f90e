package providers

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// checker collects what is wrong with a list of providers.
type checker struct {
	bad   []error
	index int
	name  string
	paths map[string]string // path -> provider
}

func (c *checker) wrong(field, reason string, err error) {
	c.bad = append(c.bad, &ConfigError{Index: c.index, Provider: c.name, Field: field, Reason: reason, Err: err})
}

// checkAll returns a copy of the list with the blanks filled in, and the base URLs.
func checkAll(given []Provider) ([]Provider, []*url.URL, error) {
	c := &checker{paths: map[string]string{}}
	list, bases := make([]Provider, len(given)), make([]*url.URL, len(given))
	names := map[string]bool{}
	for i := range given {
		list[i] = given[i].clone()
		p := &list[i]
		c.index, c.name = i, p.Name
		switch {
		case !isName(p.Name):
			c.wrong("Name", "must be 1 to 63 letters, digits, '.', '_' and '-'", nil)
		case names[p.Name]:
			c.wrong("Name", "is given twice; rename one", nil)
		}
		names[p.Name] = true
		bases[i] = c.provider(p)
	}
	return list, bases, errors.Join(c.bad...)
}

func (p *Provider) clone() Provider {
	q := *p
	q.Models = slices.Clone(p.Models)
	for i := range q.Models {
		m := &q.Models[i]
		m.APIs, m.Labels = slices.Clone(m.APIs), maps.Clone(m.Labels)
		if m.Prices != nil {
			prices := *m.Prices
			m.Prices = &prices
		}
		if m.Upstream == "" {
			m.Upstream = m.Name
		}
	}
	q.Labels, q.Header = maps.Clone(p.Labels), p.Header.Clone()
	q.APIs, q.Paths = slices.Clone(p.APIs), slices.Clone(p.Paths)
	return q
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

func (c *checker) provider(p *Provider) *url.URL {
	if p.Kind == nil {
		c.wrong("Kind", "is missing; give OpenAI{}, Anthropic{}, AzureOpenAI{} or Gemini{}, or one of another module", nil)
		return nil
	}
	if err := p.Kind.Check(p); err != nil {
		c.wrong("Kind", "doesn't fit", err)
	}
	if p.MaxConcurrent < 0 {
		c.wrong("MaxConcurrent", "is negative; 0 learns it", nil)
	}
	if len(p.Models) == 0 && len(p.Paths) == 0 {
		c.wrong("Models", "is empty, and so is Paths: nothing is served", nil)
	}
	c.apis("APIs", p.APIs)
	c.models(p)
	c.header(p)
	c.statefulPaths(p)
	if s, ok := p.Credentials.(static); ok {
		if err := usable(s.c.Reveal()); err != nil {
			c.wrong("Credentials", "can't be used", err)
		}
	}
	return c.base(p.URL)
}

func (c *checker) base(text string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case text == "":
		c.wrong("URL", "is missing: the kind has none of its own", nil)
	case err != nil: // its text has the URL, which may hold a password
		c.wrong("URL", "is no URL", nil)
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		c.wrong("URL", "must begin with https:// (or http://) and name a host", nil)
	case u.User != nil:
		c.wrong("URL", "has a user's name or password; put the secret into Credentials", nil)
	case u.RawQuery != "" || u.ForceQuery:
		c.wrong("URL", "has a query (?), which may hold a secret and is not sent; remove it, a key belongs into Credentials", nil)
	case u.Fragment != "":
		c.wrong("URL", "has a fragment (#); remove it", nil)
	default:
	}
	return u
}

func (c *checker) models(p *Provider) {
	seen := map[string]bool{}
	for i := range p.Models {
		m := &p.Models[i]
		field := func(name string) string { return fmt.Sprintf("Models[%d].%s", i, name) }
		switch {
		case !printable(m.Name):
			c.wrong(field("Name"), "must be 1 to 256 printable characters", nil)
		case seen[m.Name]:
			c.wrong(field("Name"), "is given twice; a provider has a model once", nil)
		case !printable(m.Upstream):
			c.wrong(field("Upstream"), "must be at most 256 printable characters", nil)
		}
		seen[m.Name] = true
		if m.ContextWindow < 0 || m.ContextWindow > maxTokens {
			c.wrong(field("ContextWindow"), "must be from 0 to 2^30 tokens", nil)
		}
		if m.MaxOutput < 0 || m.MaxOutput > maxTokens {
			c.wrong(field("MaxOutput"), "must be from 0 to 2^30 tokens", nil)
		}
		if m.Prior.TTFT < 0 || m.Prior.TTFTPerThousand < 0 || m.Prior.ITL < 0 {
			c.wrong(field("Prior"), "has a negative duration; 0 is the default", nil)
		}
		if m.Prices != nil {
			if _, err := price.New([]price.Entry{{Provider: price.Any, Model: "*", Prices: *m.Prices}}, nil); err != nil {
				c.wrong(field("Prices"), "can't be used", err)
			}
		}
		c.apis(field("APIs"), m.APIs)
	}
}

func printable(s string) bool {
	const most = 256
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return false
		}
	}
	return s != "" && len(s) <= most
}

func (c *checker) apis(field string, list []prompt.API) {
	for _, a := range list {
		if a.Path() == "" {
			c.wrong(field, "has an API that doesn't exist", nil)
			return
		}
	}
}

// header refuses what would be a second credential, or break the request.
func (c *checker) header(p *Provider) {
	for name, values := range p.Header {
		switch {
		case !isToken(name):
			c.wrong("Header", "has a name that no header can have; correct it", nil)
			continue
		case slices.ContainsFunc(values, unsendable):
			c.wrong("Header", name+" has a value with control characters; correct it", nil)
		}
		switch http.CanonicalHeaderKey(name) {
		case "Authorization", "X-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization":
			c.wrong("Header", name+" holds a secret; put it into Credentials", nil)
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Accept-Encoding", "Content-Encoding":
			c.wrong("Header", name+" can't be set; remove it", nil)
		default:
		}
	}
}

// isToken reports whether a header can have the name.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// unsendable reports whether no header can have the value.
func unsendable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) >= 0
}

func (c *checker) statefulPaths(p *Provider) {
	for i, path := range p.Paths {
		_, isAPI := prompt.APIForPath(path)
		trimmed := clean(path)
		switch {
		case !strings.HasPrefix(trimmed, versionPath):
			c.wrong("Paths", `must begin with "/v1/": "/v1/files"`, nil)
		case isAPI:
			c.wrong("Paths", path+" is no path with state, it is routed by model", nil)
		case aboveAPI(trimmed):
			c.wrong("Paths", path+" is above a path that is routed by model; list those below that have state", nil)
		case c.paths[trimmed] == p.Name:
			c.wrong("Paths", path+" is given twice", nil)
		case c.paths[trimmed] != "":
			c.wrong("Paths", path+" is also that of provider "+c.paths[trimmed]+"; its state can live at one only", nil)
		default:
		}
		c.paths[trimmed] = p.Name
		p.Paths[i] = trimmed
	}
}

// aboveAPI reports whether requests that are routed by model are below a path.
func aboveAPI(path string) bool {
	for api := prompt.Chat; api.Path() != ""; api++ {
		if below(api.Path(), path) {
			return true
		}
	}
	return false
}
