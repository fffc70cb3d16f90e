package policy

import (
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// text is a text; numbers and booleans are taken as they are written.
func text(doc schema) form[string] {
	return form[string]{
		read: func(p *parser, n *yaml.Node, at string, into *string) {
			p.at = at
			p.Text(n, lastKey(at), into)
		},
		schema: func(*schemas) schema {
			out := schema{"type": []string{"string", "number", "boolean"}}
			if doc != nil {
				out = doc
			}
			return out
		},
	}
}

// name is a text that names something.
func name() form[string] { return text(nil) }

// nameIn is one of a list that the checks know.
func nameIn(words ...string) form[string] { return text(schema{"enum": words}) }

// names are one name or several.
func names() form[[]string] { return oneOrMore(name()) }

// nameList is a list of names, as published policies have them; a single one need
// not be a list.
func nameList(of form[string]) form[[]string] {
	one, list := oneOrMore(of), listOf(of, "")
	return form[[]string]{
		read: func(p *parser, n *yaml.Node, at string, into *[]string) {
			if !p.published {
				one.read(p, n, at, into)
				return
			}
			p.at = at
			target, ok := p.Resolve(n)
			switch {
			case !ok:
			case target.Kind == yaml.ScalarNode:
				p.fail(target, CodeUnattested, lastKey(at)+" is a list in published policies of "+APIVersionKinference,
					"write a list, or "+useOurs)
			default:
				list.read(p, n, at, into)
			}
		},
		schema: one.schema,
	}
}

// labelsForm is a mapping of texts.
func labelsForm() form[map[string]string] {
	return form[map[string]string]{
		read: func(p *parser, n *yaml.Node, at string, into *map[string]string) {
			p.at = at
			labels := make(map[string]string)
			p.Mapping(n, "labels", nil, func(k, v *yaml.Node) {
				p.at = path(at, k.Value)
				p.src.put(p.at, v.Line, v.Column)
				var value string
				if p.Text(v, lastPart(at)+"."+k.Value, &value) {
					labels[k.Value] = value
				}
				p.at = at
			})
			*into = labels
		},
		schema: func(*schemas) schema {
			return schema{
				"type": "object", "minProperties": 1,
				"additionalProperties": schema{"type": []string{"string", "number", "boolean"}},
			}
		},
	}
}

func boolean() form[bool] {
	return form[bool]{
		read: func(p *parser, n *yaml.Node, at string, into *bool) {
			p.at = at
			p.Boolean(n, lastKey(at), into)
		},
		schema: func(*schemas) schema { return schema{"type": "boolean"} },
	}
}

// optional is a value that is nil when it is not written.
func optional[T any](of form[T]) form[*T] {
	return form[*T]{
		read: func(p *parser, n *yaml.Node, at string, into **T) {
			var v T
			before := len(p.findings)
			of.read(p, n, at, &v)
			if before == len(p.findings) {
				*into = &v
			}
		},
		schema: of.schema,
	}
}

func whole(low, high int) form[int] {
	return form[int]{
		read: func(p *parser, n *yaml.Node, at string, into *int) {
			p.at = at
			p.Whole(n, lastKey(at), into)
		},
		schema: func(*schemas) schema { return schema{"type": "integer", "minimum": low, "maximum": high} },
	}
}

// number is a decimal number: 2, 0.5, 1e3.
func number() form[float64] {
	return decimal("a number", numberOf, schema{"type": "number"})
}

// decimal is what parse makes a number of.
func decimal(want string, parse func(n *yaml.Node) (float64, bool), as schema) form[float64] {
	return form[float64]{
		read: func(p *parser, n *yaml.Node, at string, into *float64) {
			p.at = at
			n, ok := p.Scalar(n, lastKey(at), want)
			if !ok {
				return
			}
			v, ok := parse(n)
			if !ok {
				p.wrong(n, want)
				return
			}
			*into = v
		},
		schema: func(*schemas) schema { return as },
	}
}

// numberOf reads what YAML takes as a finite number.
func numberOf(n *yaml.Node) (float64, bool) {
	switch n.ShortTag() {
	case "!!int":
		// Decimal, as whole numbers are: other programs take 010 for eight.
		if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return float64(v), true
		}
	case "!!float":
	default:
		return 0, false
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

// shareValue is a share of a whole: 0.7 or 70%.
func shareValue() form[float64] {
	parse := func(n *yaml.Node) (float64, bool) {
		if v, ok := percent(n.Value); ok {
			return v / 100, true
		}
		return numberOf(n)
	}
	return decimal("a share such as 70% or 0.7", parse, schema{"anyOf": []schema{
		{"type": "number", "minimum": 0, "maximum": 1},
		{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%$`},
	}})
}

// percent reads "70%".
func percent(s string) (float64, bool) {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

const wantDuration = "a duration such as 500ms, 2s or 1m30s"

// durationPattern is what editors take as a duration.
const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$|^0$`

func duration() form[time.Duration] {
	return form[time.Duration]{
		read: func(p *parser, n *yaml.Node, at string, into *time.Duration) {
			p.at = at
			n, ok := p.Scalar(n, lastKey(at), wantDuration)
			if !ok {
				return
			}
			v, err := time.ParseDuration(n.Value)
			if err != nil {
				advice := ""
				if _, ok := numberOf(n); ok {
					advice = "add a unit: " + n.Value + "s or " + n.Value + "ms"
				}
				p.fail(n, CodeWrongType, lastKey(p.at)+" must be "+wantDuration+", found "+yamlnode.KindOf(n), advice)
				return
			}
			*into = v
		},
		schema: func(*schemas) schema {
			return schema{"anyOf": []schema{{"type": "string", "pattern": durationPattern}, {"const": 0}}}
		},
	}
}

// seconds is a duration that is kept as a number of seconds.
func seconds() form[float64] {
	of := duration()
	return form[float64]{
		read: func(p *parser, n *yaml.Node, at string, into *float64) {
			var d time.Duration
			of.read(p, n, at, &d)
			*into = d.Seconds()
		},
		schema: of.schema,
	}
}

// margin is by how much something must be faster: 200ms, 30%, or both in a list.
func margin() form[Margin] {
	one := form[Margin]{
		read: func(p *parser, n *yaml.Node, at string, into *Margin) {
			p.at = at
			const want = "a duration such as 200ms or a share such as 30%"
			n, ok := p.Scalar(n, lastKey(at), want)
			if !ok {
				return
			}
			if v, ok := percent(n.Value); ok {
				p.once(n, into.Percent != 0, "share")
				into.Percent = v
				return
			}
			v, err := time.ParseDuration(n.Value)
			if err != nil {
				p.wrong(n, want)
				return
			}
			p.once(n, into.By != 0, "duration")
			into.By = v
		},
	}
	return form[Margin]{
		read: func(p *parser, n *yaml.Node, at string, into *Margin) {
			p.at = at
			list, ok := p.Resolve(n)
			if !ok || list.Kind != yaml.SequenceNode {
				one.read(p, n, at, into)
				return
			}
			for i, n := range list.Content {
				one.read(p, n, item(at, i), into)
				if p.stopped() {
					break
				}
			}
		},
		schema: func(*schemas) schema {
			one := schema{"anyOf": []schema{
				{"type": "string", "pattern": durationPattern + `|^[0-9]+(\.[0-9]+)?%$`}, {"const": 0},
			}}
			return schema{"anyOf": []schema{one, {"type": "array", "items": one, "minItems": 1, "maxItems": 2}}}
		},
	}
}

// once reports what is given a second time.
func (p *parser) once(n *yaml.Node, again bool, what string) {
	if again {
		p.fail(n, CodeDuplicateEntry, lastPart(p.at)+" has a second "+what, "give one duration and one share at most")
	}
}

// wrong reports a scalar that is not what it must be.
func (p *parser) wrong(n *yaml.Node, want string) {
	advice := ""
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		if _, err := strconv.ParseFloat(n.Value, 64); err == nil {
			advice = "write it without quotes"
		}
	}
	p.fail(n, CodeWrongType, lastKey(p.at)+" must be "+want+", found "+yamlnode.KindOf(n), advice)
}

// rangeOf is a range of numbers. attested: published policies have its greaterThan.
func rangeOf(name string, of form[float64], unit string, attested bool) form[Range] {
	above := key("greaterThan", optional(of), func(r *Range) **float64 { return &r.GreaterThan }, "Holds above this, in "+unit+".")
	below := key("lessThan", optional(of), func(r *Range) **float64 { return &r.LessThan }, "Holds below this, in "+unit+".")
	above.published = attested
	return object(name, "a range", above, below)
}
