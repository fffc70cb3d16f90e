package prometheus_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
)

const (
	document  = "../../docs/metrics.md"
	alerts    = "alerts/kvsteer.yaml"
	dashboard = "dashboard/kvsteer.json"
)

func catalog(t *testing.T) map[string]prometheus.Family {
	t.Helper()
	m, _ := alone(t, prometheus.Options{})
	out := map[string]prometheus.Family{}
	for _, f := range m.Catalog() {
		require.NotContains(t, out, f.Name)
		out[f.Name] = f
	}
	return out
}

// docs/metrics.md has a row for every metric there is, and for none that there isn't, with
// its kind, its labels, what it is, and something to use it in.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	all, listed := catalog(t), map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(kvsteer_[a-z_]+)` \\|(.*)\\|$").FindAllStringSubmatch(string(text), -1) {
		f, ok := all[row[1]]
		if !assert.True(t, ok, "there is no "+row[1]) {
			continue
		}
		assert.False(t, listed[f.Name], f.Name+" is listed twice")
		listed[f.Name] = true
		cells := strings.Split(row[2], " | ")
		require.Len(t, cells, 4, f.Name)
		assert.Equal(t, f.Kind, strings.TrimSpace(cells[0]), f.Name)
		assert.Equal(t, strings.Join(f.Labels, ", "), strings.TrimSpace(cells[1]), f.Name)
		assert.NotEmpty(t, strings.TrimSpace(cells[2]), f.Name)
		assert.NotEmpty(t, strings.TrimSpace(cells[3]), f.Name)
	}
	for name := range all {
		assert.True(t, listed[name], name+" is not documented")
	}
}

// What is registered is what the catalog lists: a real registry sees no other name.
func TestCatalogIsWhatIsRegistered(t *testing.T) {
	r := newRig(t, rigConfig{
		engines: 1, metrics: everything(t), options: []kvsteer.Option{kvsteer.WithProviders(clouds(t))},
	})
	flood(r.metrics, 4)
	all := catalog(t)
	for name, f := range r.gather() {
		want, ok := all[name]
		if assert.True(t, ok, name) {
			assert.Equal(t, want.Kind, strings.ToLower(f.GetType().String()), name)
			assert.Equal(t, want.Help, f.GetHelp())
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetName())
				}
				assert.ElementsMatch(t, want.Labels, labels, name)
			}
		}
	}
}

// Dashboard, alerts and document name metrics that there are, by labels that they have, and
// values that these have, as far as those are of a fixed vocabulary.
func TestExpressionsNameWhatThereIs(t *testing.T) {
	all := catalog(t)
	exprs := slices.Concat(dashboardExprs(t), alertExprs(t), documentExprs(t))
	require.Greater(t, len(exprs), 100)
	for _, e := range exprs {
		names := regexp.MustCompile(`kvsteer_[a-z_]+`).FindAllString(e, -1)
		for _, name := range names {
			_, ok := family(all, name)
			assert.True(t, ok, "%s in %s", name, e)
		}
		for _, sel := range regexp.MustCompile(`(kvsteer_[a-z_]+)\{([^}]*)\}`).FindAllStringSubmatch(e, -1) {
			f, ok := family(all, sel[1])
			if !ok {
				continue
			}
			for _, label := range regexp.MustCompile(`([a-z_]+)(=~|!=|!~|=)"`).FindAllStringSubmatch(sel[2], -1) {
				known := append(slices.Clone(f.Labels), "job", "instance", "le")
				assert.Contains(t, known, label[1], "%s has no label %s: %s", f.Name, label[1], e)
			}
		}
	}
}

// family finds the metric of a series' name.
func family(all map[string]prometheus.Family, name string) (prometheus.Family, bool) {
	if f, ok := all[name]; ok {
		return f, f.Kind != "histogram" && f.Kind != "summary"
	}
	for _, end := range []string{"_bucket", "_sum", "_count"} {
		if f, ok := all[strings.TrimSuffix(name, end)]; ok && strings.HasSuffix(name, end) {
			return f, f.Kind == "histogram" || f.Kind == "summary" && end != "_bucket"
		}
	}
	return prometheus.Family{}, false
}

// dashboardExprs are all expressions of the dashboard, its variables put in.
func dashboardExprs(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile(dashboard)
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	require.NoError(t, json.Unmarshal(text, &d))
	ids := map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			list = append(list, filled(target.Expr))
		}
	}
	require.Greater(t, len(list), 40)
	for _, e := range list {
		require.NotContains(t, e, "$", "a variable that there is not")
	}
	return list
}

func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__interval", "5m", "$job", ".*", "$instance", ".*", "$model", ".*").Replace(expr)
}

type rules struct {
	Groups []struct {
		Rules []struct{ Record, Alert, Expr string }
	}
}

func alertRules(t *testing.T) (r rules) {
	t.Helper()
	text, err := os.ReadFile(alerts)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &r))
	return r
}

func alertExprs(t *testing.T) (list []string) {
	t.Helper()
	for _, g := range alertRules(t).Groups {
		for _, rule := range g.Rules {
			list = append(list, rule.Expr)
		}
	}
	return list
}

// documentExprs are what is in code in the document and more than a name.
func documentExprs(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	for _, code := range regexp.MustCompile("`([^`\n]*kvsteer_[^`\n]*)`").FindAllStringSubmatch(string(text), -1) {
		if strings.ContainsAny(code[1], "({ ") {
			list = append(list, code[1])
		}
	}
	return list
}

// Each alert is in the document, is tested by promtool, and what the document refers to
// there is; the target of the alerts is a bound of the buckets.
func TestAlertsAreDocumentedAndTested(t *testing.T) {
	doc, err := os.ReadFile(document)
	require.NoError(t, err)
	tests, err := os.ReadFile(filepath.Join("alerts", "kvsteer_test.yaml"))
	require.NoError(t, err)
	names := map[string]bool{}
	for _, g := range alertRules(t).Groups {
		for _, rule := range g.Rules {
			if rule.Alert == "" {
				continue
			}
			names[rule.Alert] = true
			assert.Contains(t, string(doc), "\n| "+rule.Alert+" |", "its row")
			assert.Contains(t, string(tests), rule.Alert, "its test")
		}
	}
	for _, name := range regexp.MustCompile(`KVSteer[A-Z]\w+`).FindAllString(string(doc)+string(tests), -1) {
		assert.True(t, names[name], "there is no alert "+name)
	}

	m, reg := alone(t, prometheus.Options{})
	m.OnOutcome(ended(decided("w", model), nil))
	bounds := map[string]bool{}
	for _, b := range gather(t, reg)["kvsteer_ttft_seconds"].GetMetric()[0].GetHistogram().GetBucket() {
		bounds[fmt.Sprint(b.GetUpperBound())] = true
	}
	for _, e := range alertExprs(t) {
		for _, le := range regexp.MustCompile(`le="([^"]+)"`).FindAllStringSubmatch(e, -1) {
			assert.True(t, bounds[le[1]], e)
		}
	}
}

// The degradations that the document lists are those that there are.
func TestDegradationsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(document)
	require.NoError(t, err)
	for _, reason := range prometheus.Kinds() {
		assert.Contains(t, string(doc), "`"+reason+"`")
	}
}
