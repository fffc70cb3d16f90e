package file

import (
	"math"
	"math/big"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecimal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		scale int
		want  int64
		exact bool
	}{
		{"0", 6, 0, true},
		{"0.0e9", 6, 0, true},
		{"-0.00", 6, 0, true},
		{"3", 6, 3_000_000, true},
		{"2.50", 6, 2_500_000, true},
		{"+.5", 6, 500_000, true},
		{"5.", 6, 5_000_000, true},
		{"0.0000015", 6, 2, false},
		{"0.0000014", 6, 1, false},
		{"0.0000004", 6, 1, false}, // not free
		{"1e-300", 12, 1, false},
		{"1e-999999999999999999999", 12, 1, false},
		{"3e-06", 12, 3_000_000, true},
		{"1.5E-05", 12, 15_000_000, true},
		{"2.0000000000000002e-08", 12, 20_000, false}, // as floats are printed
		{"999999999999999999", 0, 999_999_999_999_999_999, true},
		{"999999999999999999.5", 0, 1_000_000_000_000_000_000, false},
		{"0000000000000000000000007", 0, 7, true},
		{"0.1e1", 0, 1, true},
		{"10e-1", 0, 1, true},
	} {
		n, exact, err := decimal(c.text, c.scale)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, n, c.text)
		require.Equal(t, c.exact, exact, c.text)
	}
	for text, want := range map[string]error{
		"": errNumber, "-": errNumber, ".": errNumber, "e5": errNumber, "1e": errNumber, "1e+": errNumber, "1e5.0": errNumber,
		"1.2.3": errNumber, "1 2": errNumber, "1_000": errNumber, "1,5": errNumber, "0x10": errNumber, "NaN": errNumber, "Inf": errNumber,
		"--1": errNumber, "+-1": errNumber, "\u0661": errNumber, "$3": errNumber,
		"-1e-9": errNegative, "-3": errNegative,
		"1e13": errTooLarge, "1e999": errTooLarge, "1e99999999999999999999": errTooLarge, "9999999999999": errTooLarge,
	} {
		_, _, err := decimal(text, 6)
		require.ErrorIs(t, err, want, "%q", text)
	}
}

// FuzzDecimal compares with arithmetic on fractions.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "3e-06", "2.50", ".5", "5.", "1e-300", "-1", "0.49999999999", "0.5", "1e999", "12345678901234567890", "1e-"} {
		f.Add(s, 6)
		f.Add(s, 12)
	}
	f.Fuzz(func(t *testing.T, text string, scale int) {
		if scale < 0 || scale > 12 {
			return
		}
		n, exact, err := decimal(text, scale)
		if err != nil {
			require.Zero(t, n)
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
		if _, e, _ := cutExponent(text); len(e) > 4 {
			return // a fraction of more digits than there is memory for
		}
		want, ok := new(big.Rat).SetString(text)
		require.True(t, ok, "%q is no number", text)
		want.Mul(want, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
		require.Equal(t, want.IsInt(), exact, "%q", text)
		rounded := new(big.Int).Add(new(big.Int).Mul(want.Num(), big.NewInt(2)), want.Denom())
		rounded.Div(rounded, new(big.Int).Mul(want.Denom(), big.NewInt(2)))
		if rounded.Sign() == 0 && want.Sign() > 0 {
			rounded.SetInt64(1)
		}
		require.Equal(t, rounded.String(), strconv.FormatInt(n, 10), "%q", text)
		require.LessOrEqual(t, n, int64(math.MaxInt64/9))
	})
}
