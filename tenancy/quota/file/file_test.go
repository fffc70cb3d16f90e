package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/tenancy/quota"
	"github.com/kvsteer/kvsteer/tenancy/quota/file"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The file in the package's documentation is one, and says what it seems to.
func TestDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(source)) {
		if text, ok := strings.CutPrefix(line, "//\t"); ok {
			lines = append(lines, text)
		}
	}
	limits, err := file.Parse("doc.go", []byte(strings.Join(lines, "")))
	require.NoError(t, err)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	require.Equal(t, file.Limits{
		Weights: quota.Weights{Cached: quota.Hundredths(10), CacheWrite: quota.Hundredths(125), Reasoning: quota.Hundredths(100)},
		Rules: []quota.Rule{
			{
				Name: "gold", Level: "tenant", Scope: quota.PerTenant, Tenants: []string{"acme"},
				Tokens:   quota.Rate{Amount: 2_000_000, Per: time.Minute, Burst: 500_000},
				Requests: quota.Rate{Amount: 600}, Concurrency: 50,
			},
			{Name: "tenants", Scope: quota.PerTenant, PerModel: true, Tokens: quota.Rate{Amount: 100_000}},
			{Name: "money", Level: "money", Scope: quota.PerOrg, Budget: quota.Budget{
				Money: 1_000_500_000, Tokens: 50_000_000, Period: quota.Month, Zone: berlin, SoftAt: 90,
			}},
			{
				Name: "trial", Level: "trial", Scope: quota.PerTeam, Classes: []string{"trial"},
				Budget: quota.Budget{Money: 5_000_000, Window: 24 * time.Hour, Soft: true},
			},
			{Name: "no batch", Level: "batch", Classes: []string{"batch"}, Deny: true},
		},
	}, limits)
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" \n":                          `f.yaml: there are no rules; write "rules: []" if that is meant`,
		"weights: {}":                  `f.yaml:1:1: there are no rules`,
		"rules: 7":                     `f.yaml:1:8: rules must be a list, found "7"`,
		"rules: [":                     `f.yaml:`,
		"rules: []\n---\na":            `f.yaml:2:1: a second document begins here`,
		"rule: []":                     `f.yaml:1:1: the file has no key "rule"; did you mean "rules"?`,
		"rules:\n- namee: a":           `f.yaml:2:3: a rule has no key "namee"; did you mean "name"?`,
		"rules:\n- {name: a, name: b}": `f.yaml:2:13: the key "name" is given twice`,
		"rules:\n- {requests: 1}":      `f.yaml:2:3: the rule "": it has no Name`,
		"rules:\n- {name: a, scope: tennant, requests: 1}":                          `f.yaml:2:20: scope can't be "tennant"; did you mean "tenant"?`,
		"rules:\n- {name: a}":                                                       `f.yaml:2:3: the rule "a": it limits nothing`,
		"rules:\n- {name: a, requests: 1}\n- {name: a, requests: 1}":                `f.yaml:3:3: the rule "a": there is another rule of that name`,
		"rules:\n- {name: a, requests: 0}":                                          `f.yaml:2:23: requests is 0; leave it out for no limit, write deny: true`,
		"rules:\n- {name: a, requests: -5}":                                         `f.yaml:2:23: requests must be a whole number, such as 100_000, found "-5"`,
		"rules:\n- {name: a, requests: 1.5}":                                        `found "1.5"`,
		"rules:\n- {name: a, requests: 1e3}":                                        `found "1e3"`,
		"rules:\n- {name: a, requests: 99999999999999999999}":                       `found "99999999999999999999"`,
		"rules:\n- {name: a, tokens: {amuont: 5}}":                                  `tokens has no key "amuont"`,
		"rules:\n- {name: a, tokens: {per: 1m}}":                                    `f.yaml:2:21: tokens has no amount`,
		"rules:\n- {name: a, tokens: {amount: 5, per: 60}}":                         `tokens.per must be a duration such as 1s, 1m or 24h, found "60"`,
		"rules:\n- {name: a, tokens: {amount: 5, per: 800h}}":                       `the rule "a": the rate of tokens: the Per is 800h0m0s`,
		"rules:\n- {name: a, tenants: []}":                                          `tenants is empty; leave it out for all`,
		"rules:\n- {name: a, tenants: x}":                                           `tenants must be a list`,
		"rules:\n- {name: a, budget: {money: 1.1234567, period: day}}":              `money must be a number with at most 6 digits after the point, found "1.1234567"`,
		"rules:\n- {name: a, budget: {money: 1.-5, period: day}}":                   `found "1.-5"`,
		"rules:\n- {name: a, budget: {money: 1, period: fortnight}}":                `the rule "a": the budget: the Period "fortnight" is none of`,
		"rules:\n- {name: a, budget: {money: 1, period: day, zone: Europe/Berlni}}": `zone "Europe/Berlni" is not known here`,
		"rules:\n- {name: a, requests: 1, budget: {}}":                              `f.yaml:2:34: budget has no amount; write money or tokens`,
		"rules:\n- {name: a, concurrency: 3000000000}":                              `concurrency is at most 2147483647`,
		"rules: []\nweights: {cached: 200}":                                         `cached is more than 100 tokens for one`,
		"rules: []\nweights: {cached: 0.001}":                                       `cached must be a number with at most 2 digits`,
	} {
		_, err := file.Parse("f.yaml", []byte(text))
		require.ErrorContains(t, err, want, text)
		var wrong *file.Error
		require.ErrorAs(t, err, &wrong, text)
	}
	limits, err := file.Parse("f.json", []byte("{\n\t\"rules\": [{\"name\": \"a\", \"requests\": 5}], \"weights\": {\"cached\": 0}}"))
	require.NoError(t, err)
	require.Equal(t, quota.Hundredths(0), limits.Weights.Cached)
	limits, err = file.Parse("f.yaml", []byte("rules: []"))
	require.NoError(t, err)
	require.Empty(t, limits.Rules)
}

// A change takes effect and keeps what was counted; a mistake changes nothing and is
// told.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(text string) {
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	l, err := quota.New(quota.Options{})
	require.NoError(t, err)
	_, err = file.Follow(path, l, file.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	write("rules: [{name: r, requests: {amount: 3, per: 744h}}]")
	limits, err := file.Read(path)
	require.NoError(t, err)
	require.Len(t, limits.Rules, 1)
	changed := make(chan []quota.Change, 10)
	var failed atomic.Int32
	s, err := file.Follow(path, l, file.Options{
		Interval: time.Millisecond, OnLoad: func(c []quota.Change) { changed <- c }, OnError: func(error) { failed.Add(1) },
	})
	require.NoError(t, err)
	defer s.Close()
	served := func() (n int) {
		for l.Reserve(&quota.Demand{}, &quota.Reservation{}) == nil {
			n++
		}
		return n
	}
	require.Equal(t, 3, served())
	write("rules: [{name: r, requests: {amount: 3, per: 744h, burst: 5}}]")
	require.Equal(t, []quota.Change{{Rule: "r", What: "changed"}}, <-changed)
	require.Equal(t, 2, served())
	write("rules: [{name: r, requests: 0}]")
	require.ErrorContains(t, s.Reload(), "requests is 0")
	require.EqualValues(t, 1, failed.Load())
	require.Error(t, s.Status().Err)
	require.Equal(t, 0, served())
	write("rules: [{name: r, scope: team, requests: {amount: 3, per: 744h, burst: 5}}]")
	require.NoError(t, s.Reload())
	c := <-changed
	require.Equal(t, "r", c[0].Rule)
	require.Contains(t, c[0].Lost, "all buckets")
	require.Equal(t, 5, served())
	require.NoError(t, s.Status().Err)
	require.EqualValues(t, 3, s.Status().Loads)
	_, err = file.Follow(t.TempDir(), l, file.Options{})
	require.ErrorIs(t, err, file.ErrNotRegular)
	_, err = file.Follow("", l, file.Options{})
	require.ErrorContains(t, err, "the path is empty")
}

func FuzzParse(f *testing.F) {
	f.Add("weights: {cached: 0.1}\nrules:\n- {name: a, scope: tenant, tokens: {amount: 5, per: 1m, burst: 2}, budget: {money: 1.5, window: 1h}}")
	f.Add("rules: [&a {name: x, requests: 1}, {<<: *a, name: y}]")
	f.Fuzz(func(t *testing.T, text string) {
		limits, err := file.Parse("f", []byte(text))
		if err != nil {
			require.Empty(t, limits.Rules)
			return
		}
		_, err = quota.New(quota.Options{Rules: limits.Rules, Weights: limits.Weights})
		require.NoError(t, err)
	})
}
