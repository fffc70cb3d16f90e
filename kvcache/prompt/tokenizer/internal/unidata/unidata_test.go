package unidata

import (
	"compress/gzip"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClassesAreSortedAndDisjoint(t *testing.T) {
	n := 0
	for rest := tables; rest != ""; {
		var name string
		name, rest = field(rest)
		_, rest = field(rest)
		class, ok := Class(name[min(len(name), len("class ")):])
		if !ok {
			continue
		}
		n++
		last := rune(-2)
		for _, r := range class {
			require.Greater(t, r.Lo, last+1, "%s: %x", name, r)
			require.GreaterOrEqual(t, r.Hi, r.Lo)
			last = r.Hi
		}
	}
	require.Greater(t, n, 150)
}

func TestWhatIsKnownOfAFewCodePoints(t *testing.T) {
	has := func(class string, r rune) bool {
		ranges, ok := Class(class)
		require.True(t, ok, class)
		for _, x := range ranges {
			if x.Lo <= r && r <= x.Hi {
				return true
			}
		}
		return false
	}
	require.True(t, has("Lu", 'A'))
	require.False(t, has("Lu", 'a'))
	require.True(t, has("(?i)s", 0x17F), "long s")
	require.True(t, has("(?i)k", 0x212A), "Kelvin")
	require.True(t, has(`\s`, 0x3000))
	require.True(t, has("rust:numeric", '²'))
	require.False(t, has("rust:numeric", '一'))

	require.Equal(t, uint8(220), Combining()[0x323])
	require.Equal(t, []rune{'e', 0x301}, Decompositions(false)['é'])
	require.Equal(t, []rune{'f', 'i'}, Decompositions(true)['ﬁ'])
	require.Equal(t, 'é', Composites()[[2]rune{'e', 0x301}])
	require.Equal(t, []rune{'i', 0x307}, Lower()['İ'])
	_, ok := Class("Nonsense")
	require.False(t, ok)
}

// tables.bin says what unicode.txt.gz says: go generate was run.
func TestTablesArePacked(t *testing.T) {
	f, err := os.Open("unicode.txt.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	lists := map[string]map[rune][]rune{"nfd": Decompositions(false), "nfkd": Decompositions(true), "lower": Lower()}
	combining, composites := Combining(), Composites()
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		key, value, ok := strings.Cut(rest, "  ")
		require.True(t, ok, line)
		switch kind {
		case "class":
			got, ok := Class(key)
			require.True(t, ok, key)
			require.Equal(t, ranges(t, value), got, key)
		case "ccc":
			for _, r := range ranges(t, value) {
				require.Equal(t, codes(t, key)[0], rune(combining[r.Lo]))
				require.Equal(t, codes(t, key)[0], rune(combining[r.Hi]))
			}
		case "comp":
			pair := codes(t, key)
			require.Equal(t, codes(t, value)[0], composites[[2]rune{pair[0], pair[1]}])
		default:
			require.Equal(t, codes(t, value), lists[kind][codes(t, key)[0]], line)
		}
	}
}

func codes(t *testing.T, s string) (out []rune) {
	t.Helper()
	for h := range strings.FieldsSeq(s) {
		v, err := strconv.ParseUint(h, 16, 32)
		require.NoError(t, err)
		out = append(out, rune(v))
	}
	return out
}

func ranges(t *testing.T, s string) (out []Range) {
	t.Helper()
	for r := range strings.FieldsSeq(s) {
		lo, hi, _ := strings.Cut(r, "-")
		out = append(out, Range{codes(t, lo)[0], codes(t, hi)[0]})
	}
	return out
}
