package unidata

import (
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
