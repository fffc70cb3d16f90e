package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// Prefix is what the keys of annotations and labels begin with that say something of
// a pod's worker. docs/kubernetes.md lists them. An annotation comes before a label of
// the same key, and either before the [Template].
const Prefix = "kvsteer.dev/"

// annotation is one key, without the prefix.
type annotation struct {
	key string
	set func(p *podSettings, value string) error
}

// podSettings are what annotations may change.
type podSettings struct {
	Template

	ports []string
}

func annotations() []annotation {
	return []annotation{
		{"port", func(p *podSettings, v string) error {
			p.ports = split(v)
			if len(p.ports) > maxEngines {
				return fmt.Errorf("it names %d ports; name at most %d", len(p.ports), maxEngines)
			}
			return nil
		}},
		{"scheme", text(func(p *podSettings) *string { return &p.Scheme })},
		{"path", text(func(p *podSettings) *string { return &p.Path })},
		{"engine", func(p *podSettings, v string) error { p.Engine = fleet.Engine(v); return nil }},
		{"models", func(p *podSettings, v string) error { p.Models = split(v); return nil }},
		{"class", text(func(p *podSettings) *string { return &p.Class })},
		{"pool", text(func(p *podSettings) *string { return &p.Pool })},
		{"block-size", number(maxBlock, func(p *podSettings) *int { return &p.BlockSize })},
		{"data-parallel", number(maxRanks, func(p *podSettings) *int { return &p.DataParallel })},
		{"events-port", number(maxPort, func(p *podSettings) *int { return &p.EventsPort })},
		{"replay-port", number(maxPort, func(p *podSettings) *int { return &p.ReplayPort })},
		{"events-topic", text(func(p *podSettings) *string { return &p.EventsTopic })},
		{"poll-events", boolean(func(p *podSettings) *bool { return &p.PollEvents })},
		{"speculative", boolean(func(p *podSettings) *bool { return &p.Speculative })},
		{"role", func(p *podSettings, v string) error { p.Role = fleet.Role(v); return nil }},
		{"draining", boolean(func(p *podSettings) *bool { return &p.Draining })},
	}
}

// split reads a list of words between commas.
func split(value string) []string {
	var out []string
	for word := range strings.SplitSeq(value, ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}

func text(field func(*podSettings) *string) func(*podSettings, string) error {
	return func(p *podSettings, v string) error { *field(p) = v; return nil }
}

func number(most int, field func(*podSettings) *int) func(*podSettings, string) error {
	return func(p *podSettings, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("%q is not a whole number between 1 and %d; correct it", v, most)
		}
		*field(p) = n
		return nil
	}
}

func boolean(field func(*podSettings) *bool) func(*podSettings, string) error {
	return func(p *podSettings, v string) error {
		switch v {
		case "true":
			*field(p) = true
		case "false":
			*field(p) = false
		default:
			return fmt.Errorf("%q is neither true nor false; correct it", v)
		}
		return nil
	}
}

// annotate changes p by what annotations and labels say. wrong is what makes the pod
// no worker, unknown what is reported only: keys that mean nothing.
func (p *podSettings) annotate(annots, labels map[string]string) (wrong, unknown []fieldProblem) {
	table := annotations()
	said := map[string]bool{}
	for _, from := range []struct {
		kind   string
		values map[string]string
	}{{"annotation", annots}, {"label", labels}} {
		for _, full := range slices.Sorted(maps.Keys(from.values)) {
			key, ours := strings.CutPrefix(full, Prefix)
			if !ours || said[key] {
				continue
			}
			i := slices.IndexFunc(table, func(a annotation) bool { return a.key == key })
			if i < 0 {
				unknown = append(unknown, fieldProblem{from.kind + " " + full, "not known; " + suggestion(key, table)})
				continue
			}
			said[key] = true
			if err := table[i].set(p, from.values[full]); err != nil {
				wrong = append(wrong, fieldProblem{from.kind + " " + full, err.Error()})
			}
		}
	}
	return wrong, unknown
}

func suggestion(key string, table []annotation) string {
	keys := make([]string, len(table))
	for i := range table {
		keys[i] = table[i].key
	}
	if near := yamlnode.Nearest(key, keys); near != "" {
		return "did you mean " + Prefix + near + "?"
	}
	return "docs/kubernetes.md lists those that are"
}

type fieldProblem struct{ field, problem string }
