package file

import (
	"math"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

func ruleKeys() []string {
	return []string{
		"name", "level", "scope", "perModel", "perClass", "orgs", "tenants", "models", "classes",
		"requests", "tokens", "input", "output", "concurrency", "budget", "deny",
	}
}

func (p *parser) rule(n *yaml.Node) (r quota.Rule) {
	p.Mapping(n, "a rule", ruleKeys(), func(key, v *yaml.Node) {
		switch name := key.Value; name {
		case "name":
			p.Text(v, name, &r.Name)
		case "level":
			p.Text(v, name, &r.Level)
		case "scope":
			r.Scope = p.scope(v)
		case "perModel":
			p.Boolean(v, name, &r.PerModel)
		case "perClass":
			p.Boolean(v, name, &r.PerClass)
		case "orgs":
			r.Orgs = p.texts(v, name)
		case "tenants":
			r.Tenants = p.texts(v, name)
		case "models":
			r.Models = p.texts(v, name)
		case "classes":
			r.Classes = p.texts(v, name)
		case "requests":
			r.Requests = p.rate(v, name)
		case "tokens":
			r.Tokens = p.rate(v, name)
		case "input":
			r.Input = p.rate(v, name)
		case "output":
			r.Output = p.rate(v, name)
		case "concurrency":
			r.Concurrency = p.concurrency(v)
		case "budget":
			r.Budget = p.budget(v)
		case "deny":
			p.Boolean(v, name, &r.Deny)
		}
	})
	return r
}

func (p *parser) scope(n *yaml.Node) quota.Scope {
	var text string
	if !p.Text(n, "scope", &text) {
		return quota.Everybody
	}
	names := []string{"everybody", "org", "team", "tenant", "key"} // as quota.Scope counts
	if at := slices.Index(names, text); at >= 0 {
		return quota.Scope(at)
	}
	p.failf(n, "scope can't be %s; %s", yamlnode.Quote(text), yamlnode.Suggest(text, names))
	return quota.Everybody
}

// texts refuses an empty list: it would be taken as all, and may have been meant as none.
func (p *parser) texts(n *yaml.Node, what string) (out []string) {
	items := p.list(n, what)
	if len(items) == 0 && len(p.errs) == 0 {
		p.failf(n, "%s is empty; leave it out for all", what)
	}
	for _, item := range items {
		var s string
		if p.Text(item, "an entry of "+what, &s) {
			out = append(out, s)
		}
		if p.Exhausted() {
			break
		}
	}
	return out
}

// rate is a mapping, or a number: so many a minute.
func (p *parser) rate(n *yaml.Node, what string) (r quota.Rate) {
	if v, ok := p.Resolve(n); ok && v.Kind == yaml.ScalarNode {
		r.Amount = p.amount(v, what, 0)
		return r
	}
	p.Mapping(n, what, []string{"amount", "per", "burst"}, func(key, v *yaml.Node) {
		switch key.Value {
		case "amount":
			r.Amount = p.amount(v, what+".amount", 0)
		case "per":
			r.Per = p.duration(v, what+".per")
		case "burst":
			r.Burst = p.amount(v, what+".burst", 0)
		}
	})
	if r.Amount == 0 && len(p.errs) == 0 {
		p.failf(n, "%s has no amount; write how many pass each per", what)
	}
	return r
}

const moneyDigits = 6

func (p *parser) budget(n *yaml.Node) (b quota.Budget) {
	keys := []string{"money", "tokens", "period", "zone", "window", "softAt", "soft"}
	p.Mapping(n, "budget", keys, func(key, v *yaml.Node) {
		switch name := key.Value; name {
		case "money":
			b.Money = p.amount(v, name, moneyDigits)
		case "tokens":
			b.Tokens = p.amount(v, name, 0)
		case "period":
			var text string
			p.Text(v, name, &text)
			b.Period = quota.Period(text)
		case "zone":
			b.Zone = p.zone(v)
		case "window":
			b.Window = p.duration(v, name)
		case "softAt":
			p.Whole(v, name, &b.SoftAt)
		case "soft":
			p.Boolean(v, name, &b.Soft)
		}
	})
	if b == (quota.Budget{}) && len(p.errs) == 0 {
		p.failf(n, "budget has no amount; write money or tokens, and a period or a window")
	}
	return b
}

func (p *parser) concurrency(n *yaml.Node) int {
	v := p.amount(n, "concurrency", 0)
	if v > math.MaxInt32 {
		p.failf(n, "concurrency is at most %d", math.MaxInt32)
		return 0
	}
	return int(v)
}

func (p *parser) weights(n *yaml.Node) (w quota.Weights) {
	p.Mapping(n, "weights", []string{"cached", "cacheWrite", "reasoning"}, func(key, v *yaml.Node) {
		const digits, most = 2, 10_000
		hundredths, ok := p.decimal(v, key.Value, digits)
		if ok && hundredths > most {
			p.failf(v, "%s is more than 100 tokens for one", key.Value)
		}
		weight := quota.Hundredths(int(min(hundredths, most)))
		switch {
		case !ok:
		case key.Value == "cached":
			w.Cached = weight
		case key.Value == "cacheWrite":
			w.CacheWrite = weight
		default:
			w.Reasoning = weight
		}
	})
	return w
}

// amount is a number that limits; none is no limit, which is said by leaving it out.
func (p *parser) amount(n *yaml.Node, what string, digits int) int64 {
	v, ok := p.decimal(n, what, digits)
	if ok && v == 0 {
		p.failf(n, "%s is 0; leave it out for no limit, write deny: true for nothing at all", what)
	}
	return v
}

// decimal reads a number that is not negative, in units of the last of so many digits
// after the point, exactly.
func (p *parser) decimal(n *yaml.Node, what string, digits int) (int64, bool) {
	want := "a whole number, such as 100_000"
	if digits > 0 {
		want = "a number with at most " + strconv.Itoa(digits) + " digits after the point"
	}
	n, ok := p.Scalar(n, what, want)
	if !ok {
		return 0, false
	}
	v, ok := yamlnode.Decimal(n.Value, digits)
	if !ok {
		p.failf(n, "%s must be %s, found %s", what, want, yamlnode.Quote(n.Value))
		return 0, false
	}
	return v, true
}

func (p *parser) duration(n *yaml.Node, what string) time.Duration {
	const want = "a duration such as 1s, 1m or 24h"
	n, ok := p.Scalar(n, what, want)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 {
		p.failf(n, "%s must be %s, found %s", what, want, yamlnode.Quote(n.Value))
		return 0
	}
	return d
}

func (p *parser) zone(n *yaml.Node) *time.Location {
	var text string
	if !p.Text(n, "zone", &text) {
		return nil
	}
	z, err := time.LoadLocation(text)
	if err != nil || text == "" || text == "Local" { // which differs between routers
		p.failf(n, "zone %s is not known here; write one such as Europe/Berlin, and see that the system has time zones (or import time/tzdata)",
			yamlnode.Quote(text))
		return nil
	}
	return z
}
