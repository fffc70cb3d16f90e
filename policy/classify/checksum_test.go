package classify

import (
	"math/big"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func values(s string) []byte {
	b := []byte(s)
	for i := range b {
		b[i] -= '0'
	}
	return b
}

// Published examples, and that a changed digit or a swap of neighbours is noticed
// as the check promises.
func TestChecksums(t *testing.T) {
	t.Parallel()
	checks := []struct {
		name  string
		valid func([]byte) bool
		of    []string
		swaps bool // all swaps of unlike neighbours are noticed
	}{
		{"luhn", luhn, []string{"4111111111111111", "378282246310005", "79927398713"}, false},
		{"verhoeff", verhoeff, []string{"2363", "758722", "234123412346"}, true},
		{"cpf", cpfValid, []string{"52998224725", "11144477735"}, false},
		{"nhs", nhsValid, []string{"9434765919", "4010232137"}, true},
	}
	for _, c := range checks {
		for _, text := range c.of {
			require.True(t, c.valid(values(text)), "%s %s", c.name, text)
			for i := range text {
				for d := range byte(10) {
					changed := values(text)
					if changed[i] == d {
						continue
					}
					changed[i] = d
					require.False(t, c.valid(changed), "%s %v", c.name, changed)
				}
				if c.swaps && i > 0 && text[i] != text[i-1] {
					swapped := values(text)
					swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
					require.False(t, c.valid(swapped), "%s %v", c.name, swapped)
				}
			}
		}
	}
}

func TestMod97(t *testing.T) {
	t.Parallel()
	for n := range 5000 {
		rest, head := values(strconv.Itoa(1000000+n*7919)), values("131"+strconv.Itoa(n%10))
		whole := ""
		for _, d := range append(append([]byte{}, rest...), head...) {
			whole += strconv.Itoa(int(d))
		}
		number, ok := new(big.Int).SetString(whole, 10)
		require.True(t, ok)
		require.Equal(t, new(big.Int).Mod(number, big.NewInt(97)).Int64() == 1, mod97(rest, head))
	}
}

func TestIssuers(t *testing.T) {
	t.Parallel()
	for card, want := range map[string][2]bool{
		"4111111111111111": {true, true}, "4222222222222": {true, true}, "4006381333931": {true, false}, "41111111111111": {false, false},
		"2221000000000009": {true, true}, "2720990000000007": {true, true}, "2721000000000004": {false, false},
		"378282246310005": {true, true}, "3782822463100055": {false, false}, "6011111111111117": {true, true},
		"30569309025904": {true, true}, "30600000000000": {false, false}, "3530111333300000": {true, true},
		"6200000000000005": {true, true}, "6205500000000000004": {true, true}, "6759649826438453": {true, true},
		"1111111111111111": {false, false}, "9111111111111111": {false, false}, "0000000000000000": {false, false},
	} {
		ok, sure := issued(values(card))
		require.Equal(t, want, [2]bool{ok, ok && sure}, card)
	}
}

func TestDates(t *testing.T) {
	t.Parallel()
	for _, d := range [][3]int{{2000, 2, 29}, {2024, 2, 29}, {1999, 12, 31}, {1900, 1, 1}} {
		require.True(t, isDate(d[0], d[1], d[2]), d)
	}
	for _, d := range [][3]int{{1900, 2, 29}, {2023, 2, 29}, {2023, 4, 31}, {2023, 13, 1}, {2023, 0, 1}, {2023, 1, 0}, {2023, 1, 32}} {
		require.False(t, isDate(d[0], d[1], d[2]), d)
	}
}
