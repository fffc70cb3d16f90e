package classify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/generated.jsonl anew")

// labelled is a text and what is in it. All numbers are made up, or those that
// issuers publish for tests.
type labelledCase struct {
	Text  string `json:"text"`
	Kinds []Kind `json:"kinds"`
	// Why says what a case is about.
	Why string `json:"why"`
}

// heldOut cases are measured, and their texts never looked at while the scanner
// is being worked on: the test does not print them.
func (l *labelledCase) heldOut() bool { return xxhash.Sum64String(l.Text)%2 == 1 }

func (l *labelledCase) has(k Kind) bool { return slices.Contains(l.Kinds, k) }

func readLabelled(t *testing.T, name string) []labelledCase {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var all []labelledCase
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l labelledCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l), lines.Text())
		all = append(all, l)
	}
	require.NoError(t, lines.Err())
	return all
}

// writeLabelled writes tokens with some of their letters escaped, so that those who
// look for leaked secrets in repositories don't find any here.
func writeLabelled(cases []labelledCase) []byte {
	hide := strings.NewReplacer("_", `\u005f`, "-", `\u002d`, "K", `\u004b`, "z", `\u007a`, "J", `\u004a`, "G", `\u0047`)
	var b bytes.Buffer
	for i := range cases {
		text, err := json.Marshal(cases[i].Text)
		if err != nil {
			panic(err)
		}
		shown := string(text)
		if slices.ContainsFunc(cases[i].Kinds, isSecret) {
			shown = hide.Replace(shown)
		}
		kinds, err := json.Marshal(cases[i].Kinds)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, `{"text":%s,"kinds":%s,"why":%q}`+"\n", shown, kinds, cases[i].Why)
	}
	return b.Bytes()
}

func isSecret(k Kind) bool { return slices.Index(Kinds(), k) >= int(firstSecret) }

func TestGeneratedSetIsUpToDate(t *testing.T) {
	const name = "testdata/generated.jsonl"
	text := writeLabelled(generateLabelled())
	if *update {
		require.NoError(t, os.WriteFile(name, text, 0o600))
		return
	}
	had, err := os.ReadFile(name)
	require.NoError(t, err)
	require.True(t, bytes.Equal(text, had), "%s is not what the generator writes: go test ./policy/classify -run GeneratedSet -update", name)
}

// score counts what was found of one kind.
type score struct{ right, missed, wrong int }

func (s score) precision() float64 { return ratio(s.right, s.right+s.wrong) }
func (s score) recall() float64    { return ratio(s.right, s.right+s.missed) }

func ratio(a, b int) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}

// checked are the kinds that a checksum (or for the SSN a set of rules) confirms.
var checked = []Kind{KindCard, KindIBAN, KindSSN, KindCNID, KindAadhaar, KindCPF, KindNHS}

// figures are what the labelled set says about a scanner, by halves: the one that
// may be looked at, and the one that is held out.
type figures struct {
	cases, held   int
	clean, alarms [2]int // texts without anything in them, and those of them with a finding
	scores        map[Kind]*[2]score
	wrong         []string // of the first half
}

func measure(t *testing.T, s *Scanner) *figures {
	t.Helper()
	cases := append(readLabelled(t, "testdata/handwritten.jsonl"), readLabelled(t, "testdata/generated.jsonl")...)
	f := &figures{cases: len(cases), scores: map[Kind]*[2]score{}}
	for _, k := range Kinds() {
		f.scores[k] = new([2]score)
	}
	texts := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		require.False(t, texts[c.Text], "twice: %s", c.Text)
		texts[c.Text] = true
		half := 0
		if c.heldOut() {
			half = 1
			f.held++
		}
		found := kindsIn(t, s, c.Text)
		if len(c.Kinds) == 0 {
			f.clean[half]++
			f.alarms[half] += min(len(found), 1)
		}
		for _, k := range Kinds() {
			is := slices.Contains(found, k)
			switch sc := &f.scores[k][half]; {
			case is && c.has(k):
				sc.right++
			case is:
				sc.wrong++
			case c.has(k):
				sc.missed++
			default:
			}
			if is != c.has(k) && half == 0 {
				f.wrong = append(f.wrong, fmt.Sprintf("%s: found %v, want %v in %q (%s)", k, found, c.Kinds, c.Text, c.Why))
			}
		}
	}
	return f
}

func TestLabelled(t *testing.T) {
	f := measure(t, scanner(t, ScannerOptions{}))
	require.GreaterOrEqual(t, f.cases, 400)
	for _, line := range f.wrong {
		t.Log(line)
	}
	t.Logf("%d cases, %d of them held out; clean texts with a finding: %d of %d, held out %d of %d",
		f.cases, f.held, f.alarms[0], f.clean[0], f.alarms[1], f.clean[1])
	t.Logf("%-14s %5s %9s %7s   held out: %5s %9s %7s", "kind", "cases", "precision", "recall", "cases", "precision", "recall")
	for _, k := range Kinds() {
		a, b := f.scores[k][0], f.scores[k][1]
		t.Logf("%-14s %5d %9.3f %7.3f   held out: %5d %9.3f %7.3f",
			k, a.right+a.missed, a.precision(), a.recall(), b.right+b.missed, b.precision(), b.recall())
		least := 0.95
		if slices.Contains(checked, k) {
			least = 0.98
		}
		for i, sc := range f.scores[k] {
			if sc.precision() < least || sc.recall() < least {
				t.Errorf("%s, half %d: precision %.3f, recall %.3f, want %.2f", k, i, sc.precision(), sc.recall(), least)
			}
		}
	}
}

// The figures in docs/classify.md are those of today.
func TestDocumentHasTheFigures(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/classify.md")
	require.NoError(t, err)
	f := measure(t, scanner(t, ScannerOptions{}))
	lines := []string{fmt.Sprintf("%d texts, %d of them without anything to find, of which %d raise an alarm",
		f.cases, f.clean[0]+f.clean[1], f.alarms[0]+f.alarms[1])}
	for _, k := range Kinds() {
		a, b := f.scores[k][0], f.scores[k][1]
		lines = append(lines, fmt.Sprintf("| `%s` | %d + %d | %.3f / %.3f | %.3f / %.3f |", k,
			a.right+a.missed, b.right+b.missed, a.precision(), b.precision(), a.recall(), b.recall()))
	}
	for _, line := range lines {
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/classify.md lacks: %s", line)
		}
	}
}

// The code in docs/classify.md is that of an Example.
func TestDocumentIsThisCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/classify.md")
	require.NoError(t, err)
	code, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	dedented := strings.ReplaceAll(string(code), "\n\t", "\n")
	blocks := strings.Split(string(page), "```")
	found := 0
	for i := 1; i < len(blocks); i += 2 {
		if block, isGo := strings.CutPrefix(blocks[i], "go\n"); isGo {
			found++
			require.Contains(t, dedented, block)
		}
	}
	require.Positive(t, found)
}

// kindsIn scans one text as a message of one part.
func kindsIn(t *testing.T, s *Scanner, text string) []Kind {
	t.Helper()
	var in Input
	in.AddText("user", text)
	var out Result
	require.NoError(t, s.Classify(context.Background(), &in, &out))
	kinds := make([]Kind, 0, len(out.Findings))
	for _, f := range out.Findings {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}
