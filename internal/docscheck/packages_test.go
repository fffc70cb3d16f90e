package docscheck

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unexampled are public packages without an Example, each with where one is.
var unexampled = map[string]string{
	"integrations/caddy":                "used by name in a Caddyfile: examples/caddy",
	"integrations/extproc/e2e":          "tests only",
	"providers/bedrock/bedrocktest":     "needs a testing.TB: the examples of providers/bedrock use it",
	"tenancy/ledger/sqlledger/postgres": "one function: named in the example of sqlledger",
	"tenancy/ledger/sqlledger/sqlite":   "one function: in the example of sqlledger",
	"examples/discoverer":               "is an example",
	"examples/policies":                 "is an example",
	"examples/policytest":               "is an example",
}

var (
	clause    = regexp.MustCompile(`(?m)^package (\w+)$`)
	described = regexp.MustCompile(`(?m)^// Package (\w+) `)
	example   = regexp.MustCompile(`(?m)^func Example\w*\(\) \{`)
)

// Every public package says what it is, and has an Example that documentation shows.
func TestPackages(t *testing.T) {
	all := read(t)
	seen := 0
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		if strings.Contains("/"+folder+"/", "/internal/") {
			continue
		}
		name, says, shows := "", false, false
		for _, file := range all[folder] {
			m := clause.FindStringSubmatch(file)
			if len(m) < 2 {
				continue
			}
			shows = shows || strings.HasSuffix(m[1], "_test") && example.MatchString(file)
			if !strings.HasSuffix(m[1], "_test") {
				name = m[1]
				d := described.FindStringSubmatch(file)
				says = says || len(d) > 1 && d[1] == name
			}
		}
		if name == "main" || name == "" {
			continue
		}
		seen++
		if !says {
			t.Errorf("%s: no comment says what package %s is", folder, name)
		}
		if why := unexampled[folder]; shows == (why != "") {
			t.Errorf("%s: has an Example: %t, and the reason why not: %q", path.Join(".", folder), shows, why)
		}
	}
	const least = 40
	if seen < least {
		t.Errorf("%d packages found: is the repository still where it is looked for?", seen)
	}
}
