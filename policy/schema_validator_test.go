package policy_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// validator understands as much of JSON Schema as docs/policy-schema.json uses, and
// refuses the rest, so that nothing is taken for checked that isn't.
type validator struct {
	patterns map[string]*regexp.Regexp
	root     map[string]any
	defs     map[string]any
}

func loadSchema(t *testing.T) *validator {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	v := &validator{patterns: map[string]*regexp.Regexp{}}
	require.NoError(t, json.Unmarshal(data, &v.root))
	defs, ok := v.root["$defs"].(map[string]any)
	require.True(t, ok)
	v.defs = defs
	return v
}

func properties(def any) map[string]map[string]any {
	out := map[string]map[string]any{}
	object, _ := def.(map[string]any)
	list, _ := object["properties"].(map[string]any)
	for key, s := range list {
		out[key], _ = s.(map[string]any)
	}
	return out
}

// problem is "" if the value is valid.
func (v *validator) problem(schema, value any) string {
	s, ok := schema.(map[string]any)
	if !ok {
		return fmt.Sprintf("no schema: %v", schema)
	}
	for keyword, want := range s {
		if p := v.keyword(s, keyword, want, value); p != "" {
			return p
		}
	}
	return ""
}

func (v *validator) keyword(s map[string]any, keyword string, want, value any) string {
	fail := func() string { return fmt.Sprintf("%v is not %s %v", value, keyword, want) }
	switch keyword {
	case "$schema", "$defs", "title", "description", "enumDescriptions", "default":
		return ""
	case "$ref":
		name, _ := want.(string)
		return v.problem(v.defs[strings.TrimPrefix(name, "#/$defs/")], value)
	case "anyOf":
		problems := ""
		for _, one := range list(want) {
			p := v.problem(one, value)
			if p == "" {
				return ""
			}
			problems += p + "; "
		}
		return problems
	case "type":
		if !slices.ContainsFunc(list(want), func(t any) bool { return isType(t, value) }) {
			return fail()
		}
	case "enum":
		if !slices.ContainsFunc(list(want), func(e any) bool { return reflect.DeepEqual(e, value) }) {
			return fail()
		}
	case "const":
		if !reflect.DeepEqual(want, value) {
			return fail()
		}
	default:
		return v.sized(s, keyword, want, value, fail)
	}
	return ""
}

func (v *validator) sized(s map[string]any, keyword string, want, value any, fail func() string) string {
	text, isText := value.(string)
	items, isList := value.([]any)
	object, isObject := value.(map[string]any)
	number, isNumber := asNumber(value)
	limit, _ := asNumber(want)
	bad := false
	switch keyword {
	case "pattern":
		pattern, _ := want.(string)
		if v.patterns[pattern] == nil {
			v.patterns[pattern] = regexp.MustCompile(pattern)
		}
		bad = isText && !v.patterns[pattern].MatchString(text)
	case "minLength":
		bad = isText && float64(len(text)) < limit
	case "minimum":
		bad = isNumber && number < limit
	case "maximum":
		bad = isNumber && number > limit
	case "minItems":
		bad = isList && float64(len(items)) < limit
	case "maxItems":
		bad = isList && float64(len(items)) > limit
	case "minProperties":
		bad = isObject && float64(len(object)) < limit
	case "items":
		for _, i := range items {
			if p := v.problem(want, i); p != "" {
				return p
			}
		}
	case "required":
		for _, key := range list(want) {
			name, _ := key.(string)
			_, has := object[name]
			bad = bad || isObject && !has
		}
	case "properties":
		known, _ := want.(map[string]any)
		for key, one := range object {
			if known[key] == nil {
				continue
			}
			if p := v.problem(known[key], one); p != "" {
				return key + ": " + p
			}
		}
	case "additionalProperties":
		known, _ := s["properties"].(map[string]any)
		for key, one := range object {
			if known[key] != nil {
				continue
			}
			if want == false {
				return key + " is no property"
			}
			if p := v.problem(want, one); p != "" {
				return key + ": " + p
			}
		}
	default:
		return "the validator does not know " + keyword
	}
	if bad {
		return fail()
	}
	return ""
}

func list(v any) []any {
	if items, ok := v.([]any); ok {
		return items
	}
	return []any{v}
}

func asNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}

func isType(want, value any) bool {
	number, isNumber := asNumber(value)
	switch value.(type) {
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case nil:
		return want == "null"
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	default:
		return isNumber && (want == "number" || want == "integer" && number == math.Trunc(number))
	}
}
