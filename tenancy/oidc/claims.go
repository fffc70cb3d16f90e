package oidc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/tenancy"
)

// identity makes of verified claims who it is.
func (r *Resolver) identity(is *Issuer, payload []byte) (*tenancy.Identity, error) {
	values, err := decode(payload)
	if err != nil {
		return nil, refused("malformed")
	}
	id := is.Identity
	id.Groups, id.Models, id.Providers = slices.Clone(id.Groups), slices.Clone(id.Models), slices.Clone(id.Providers)
	c := claimReader{values: values}
	for _, f := range []struct {
		name string
		into *string
	}{{is.Claims.Org, &id.Org}, {is.Claims.Team, &id.Team}, {is.Claims.Tenant, &id.Tenant}, {is.Claims.Key, &id.Key}} {
		if f.name != "" {
			text := c.text(f.name)
			if text == "" {
				c.fail(f.name, "is missing")
			}
			*f.into = is.Prefix + text
		}
	}
	if class := c.text(is.Claims.Class); class != "" {
		id.Class = class
	}
	if n, ok := c.number(is.Claims.Priority); ok {
		id.Priority = n
	}
	if groups := c.list(is.Claims.Groups); groups != nil {
		id.Groups = groups
	}
	for _, f := range []struct {
		name string
		into *[]string
	}{{is.Claims.Models, &id.Models}, {is.Claims.Providers, &id.Providers}} {
		if f.name != "" {
			if *f.into = c.list(f.name); *f.into == nil {
				*f.into = []string{}
			}
		}
	}
	if c.err != nil {
		return nil, &tenancy.UnverifiedError{Kind: byToken, Reason: "its claims do not say who it is", Err: c.err}
	}
	if is.Adjust != nil {
		if err := is.Adjust(payload, &id); err != nil {
			return nil, &tenancy.UnverifiedError{Kind: byToken, Reason: "refused by Issuer.Adjust", Err: err}
		}
	}
	return &id, nil
}

// claimReader reads claims; err is the first thing that is wrong, without any value.
type claimReader struct {
	values map[string]any
	err    error
}

func (c *claimReader) fail(name, problem string) {
	if c.err == nil {
		c.err = fmt.Errorf("the claim %s %s", name, problem)
	}
}

// find returns a claim, nil if there is none.
func (c *claimReader) find(name string) any {
	if name == "" {
		return nil
	}
	path, nested := strings.CutPrefix(name, "/")
	if !nested {
		return c.values[name]
	}
	var at any = c.values
	for step := range strings.SplitSeq(path, "/") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	return at
}

func (c *claimReader) text(name string) string {
	switch v := c.find(name).(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		if _, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return v.String()
		}
	default:
	}
	c.fail(name, "is neither a text nor a whole number")
	return ""
}

func (c *claimReader) number(name string) (int, bool) {
	v := c.find(name)
	if v == nil {
		return 0, false
	}
	number, ok := v.(json.Number)
	n, err := strconv.ParseInt(number.String(), 10, 32)
	if !ok || err != nil {
		c.fail(name, "is not a whole number of 32 bits")
	}
	return int(n), true
}

// list is nil if there is no such claim.
func (c *claimReader) list(name string) []string {
	switch v := c.find(name).(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []any:
		out := make([]string, 0, len(v))
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				c.fail(name, "has an entry that is not a text")
			}
			out = append(out, text)
		}
		return out
	default:
		c.fail(name, "is not a list of texts")
		return nil
	}
}
