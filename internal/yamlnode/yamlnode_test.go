package yamlnode

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// walk reads text and returns the keys and faults, in their order.
func walk(t *testing.T, text string, keys []string) (read, faults []string) {
	t.Helper()
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal(Prepare([]byte(text)), &doc))
	w := &Walker{MaxVisits: 100, Fail: func(_ *yaml.Node, _ Fault, problem, advice string) {
		faults = append(faults, problem+"|"+advice)
	}}
	w.Mapping(doc.Content[0], "it", keys, func(k, v *yaml.Node) { read = append(read, k.Value+"="+v.Value) })
	return read, faults
}

func TestMapping(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text         string
		read, faults []string
	}{
		"keys":      {"{b: 1, a: 2}", []string{"b=1", "a=2"}, nil},
		"unknown":   {"{blue: 1, q: 2}", nil, []string{`it has no key "blue"|it has a, b`, `it has no key "q"|it has a, b`}},
		"twice":     {"{a: 1, a: 2}", []string{"a=1"}, []string{`the key "a" is given twice|remove one`}},
		"merged":    {"{<<: {a: 1, b: 2}, b: 3}", []string{"b=3", "a=1"}, nil},
		"no map":    {"[a]", nil, []string{"it must be a mapping of keys to values, found a list|"}},
		"null key":  {"{~: 1}", nil, []string{"a key of it must be a word, found nothing|"}},
		"self":      {"&x {<<: *x, a: 1}", []string{"a=1"}, []string{"merge keys are nested more than 8 deep|nest them less"}},
		"too many":  {"{<<: [" + strings.Repeat("{a: 1},", 60) + "]}", []string{"a=1"}, []string{"the document has too many nodes|use fewer aliases"}},
		"tabs":      {"{\n\t\"a\": \"1\"\n}", []string{"a=1"}, nil},
		"byte mark": {"\xef\xbb\xbfa: 1", []string{"a=1"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, faults := walk(t, c.text, []string{"a", "b"})
			require.Equal(t, c.read, read)
			require.Equal(t, c.faults, faults)
		})
	}
}

func TestScalars(t *testing.T) {
	t.Parallel()
	var faults []string
	w := &Walker{MaxVisits: 100, Fail: func(_ *yaml.Node, _ Fault, problem, _ string) { faults = append(faults, problem) }}
	node := func(text string) *yaml.Node {
		var doc yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(text), &doc))
		return doc.Content[0]
	}
	var s string
	var n int
	var b bool
	require.True(t, w.Text(node("7"), "k", &s) && w.Whole(node("-7"), "k", &n) && w.Boolean(node("true"), "k", &b))
	require.Equal(t, []any{"7", -7, true}, []any{s, n, b})
	require.False(t, w.Text(node("~"), "k", &s) || w.Whole(node("'7'"), "k", &n) || w.Boolean(node("'true'"), "k", &b) ||
		w.Whole(node("9999999999"), "k", &n) || w.Text(node("{}"), "k", &s))
	require.Equal(t, []string{
		"k must be a text, found nothing", `k must be a whole number, found "7"`, `k must be true or false, found "true"`,
		`k must be a whole number, found "9999999999"`, "k must be a text, found a mapping",
	}, faults)
}

// Of a document with secrets, no value is shown, and no key that isn't nearly a known one.
func TestDiscreet(t *testing.T) {
	t.Parallel()
	const secret = "sk-secret"
	var faults []string
	w := &Walker{MaxVisits: 100, Discreet: true, Fail: func(_ *yaml.Node, _ Fault, problem, advice string) {
		faults = append(faults, problem+"|"+advice)
	}}
	node := func(text string) *yaml.Node {
		var doc yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(text), &doc))
		return doc.Content[0]
	}
	keys := []string{"hash", "id"}
	none := func(_, _ *yaml.Node) {}
	w.Mapping(node("{"+secret+": 1, hsh: 2}"), "it", keys, none)
	w.Mapping(node(secret), "it", keys, none)
	var n int
	var b bool
	require.False(t, w.Whole(node(secret), "k", &n) || w.Boolean(node(secret), "k", &b))
	require.Equal(t, []string{
		"it has no such key|it has hash, id", `it has no key "hsh"|did you mean "hash"?`,
		"it must be a mapping of keys to values, found another text|",
		"k must be a whole number, found another text|", "k must be true or false, found another text|",
	}, faults)
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	words := []string{"greaterThan", "lessThan"}
	require.Equal(t, `did you mean "greaterThan"?`, Suggest("greater_than", words))
	require.Equal(t, `did you mean "lessThan"?`, Suggest("lessThen", words))
	require.Equal(t, "it has greaterThan, lessThan", Suggest("atMost", words))
	require.Empty(t, Suggest("x", nil))
	require.Empty(t, Nearest(strings.Repeat("lessThan", 100), words))
	many := strings.Split(strings.Repeat("word,", 30), ",")[:30]
	require.True(t, strings.HasSuffix(Suggest("else", many), " and others"))
}

func TestSyntax(t *testing.T) {
	t.Parallel()
	text := []byte("a:\n\tb: 1\n")
	var doc yaml.Node
	line, column, problem := Syntax(yaml.Unmarshal(text, &doc), text)
	require.Equal(t, []int{2, 1}, []int{line, column})
	require.Contains(t, problem, "indented with a tab")
}
