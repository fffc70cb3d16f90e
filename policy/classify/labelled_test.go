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

func TestLabelled(t *testing.T) {
	cases := append(readLabelled(t, "testdata/handwritten.jsonl"), readLabelled(t, "testdata/generated.jsonl")...)
	require.GreaterOrEqual(t, len(cases), 400)
	s, err := NewScanner(ScannerOptions{})
	require.NoError(t, err)
	var halves [2]map[Kind]score
	var clean, alarms [2]int
	for i := range halves {
		halves[i] = map[Kind]score{}
	}
	texts := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		require.False(t, texts[c.Text], "twice: %s", c.Text)
		texts[c.Text] = true
		half := 0
		if c.heldOut() {
			half = 1
		}
		found := kindsIn(t, s, c.Text)
		if len(c.Kinds) == 0 {
			clean[half]++
			alarms[half] += min(len(found), 1)
		}
		for _, k := range Kinds() {
			sc := halves[half][k]
			is := slices.Contains(found, k)
			switch {
			case is && c.has(k):
				sc.right++
			case is:
				sc.wrong++
			case c.has(k):
				sc.missed++
			default:
			}
			halves[half][k] = sc
			if is != c.has(k) && half == 0 {
				t.Logf("%s: found %v, want %v in %q (%s)", k, found, c.Kinds, c.Text, c.Why)
			}
		}
	}
	t.Logf("%d cases, %d of them held out; clean texts with a finding: %d of %d, held out %d of %d",
		len(cases), sum(cases), alarms[0], clean[0], alarms[1], clean[1])
	t.Logf("%-14s %5s %9s %7s   held out: %5s %9s %7s", "kind", "cases", "precision", "recall", "cases", "precision", "recall")
	for _, k := range Kinds() {
		a, b := halves[0][k], halves[1][k]
		t.Logf("%-14s %5d %9.3f %7.3f   held out: %5d %9.3f %7.3f",
			k, a.right+a.missed, a.precision(), a.recall(), b.right+b.missed, b.precision(), b.recall())
		least := 0.95
		if slices.Contains(checked, k) {
			least = 0.98
		}
		for i, sc := range []score{a, b} {
			if sc.precision() < least || sc.recall() < least {
				t.Errorf("%s, half %d: precision %.3f, recall %.3f, want %.2f", k, i, sc.precision(), sc.recall(), least)
			}
		}
	}
}

func sum(cases []labelledCase) (held int) {
	for i := range cases {
		if cases[i].heldOut() {
			held++
		}
	}
	return held
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
