package classify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// joints are what people, forms and programs put between groups of digits, and whether
// tables have the same, so that a word must say what the number is.
var joints = map[string]bool{
	" ": false, "-": false, ".": false, "/": false, "_": false, "~": false, "--": false, " - ": false, " / ": false, "- ": false, "   ": false,
	"%20": false, "%2D": false, "%2d": false, "&nbsp;": false, "&#32;": false, "&#160;": false, "\x00": false, "\v": false,
	"\u200b": false, "\u00a0": false, "\u3000": false, "\u00b7": false, "\u2022": false, "\u2027": false, "\u2043": false, "\u2212": false,
	"\t": true, "\n": true, "\r\n": true, ",": true, ", ": true, ";": true, "|": true, " | ": true, ":": true, "+": true, "*": true, "=": true,
	"%09": true, "%0A": true, `\t`: true, `\n`: true, "\u2028": true,
}

// spelled joins the digits of a number in groups of the sizes.
func spelled(digits, by string, sizes ...int) string {
	var groups []string
	for _, size := range sizes {
		groups = append(groups, digits[:size])
		digits = digits[size:]
	}
	return strings.Join(groups, by)
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	for by, tabular := range joints {
		for _, tt := range []struct {
			kind  Kind
			text  string
			word  string
			alone bool // it is found without the word
		}{
			{KindCard, spelled("4111111111111111", by, 4, 4, 4, 4), "card ", !tabular},
			{KindCard, spelled("378282246310005", by, 4, 6, 5), "amex: ", !tabular},
			{KindIBAN, spelled("DE89370400440532013000", by, 4, 4, 4, 4, 4, 2), "", true},
			{KindCNID, spelled("11010519491231002X", by, 6, 8, 4), "", by != "_"},
			{KindCNID, spelled("110105194912310038", by, 6, 4, 4, 4), "", residentID([]byte{1, 1, 0, 1, 0, 5, 1, 9, 4, 9, 1, 2, 3, 1, 0, 0, 3}, 8)},
			{KindCPF, spelled("52998224725", by, 3, 3, 3, 2), "", !tabular},
			{KindSSN, spelled("219099999", by, 3, 2, 4), "SSN ", false},
			{KindAadhaar, spelled("234123412346", by, 4, 4, 4), "aadhaar ", false},
			{KindNHS, spelled("9434765919", by, 3, 3, 4), "NHS ", false},
		} {
			if tt.word != "" {
				require.Contains(t, kindsIn(t, s, tt.word+tt.text), tt.kind, "%q", tt.word+tt.text)
			}
			if tt.alone {
				for _, text := range []string{tt.text, "it is " + tt.text + ", I think", "(" + tt.text + ")", "\"" + tt.text + "\""} {
					require.Contains(t, kindsIn(t, s, text), tt.kind, "%q", text)
				}
			} else if tabular && tt.kind != KindCNID {
				require.NotContains(t, kindsIn(t, s, tt.text), tt.kind, "%q", tt.text)
			}
		}
	}
	for text, kind := range map[string]Kind{
		"card4111111111111111": KindCard, "visa4111111111111111": KindCard, "ssn219099999": KindSSN, // a word that is glued to it
		"4111111111111111/12/28/123": KindCard, "4111111111111111:1228:123": KindCard, "4111111111111111|12|2028|123": KindCard, "4111-1111-1111-1111-12-28": KindCard,
		"card 4111 1111\n1111 1111": KindCard, "card 4111\n1111 1111 1111": KindCard, // a line that was broken
		"card 4,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1": KindCard, "card: 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1": KindCard, "card 411111,11111,11111": KindCard,
		"4\ufe0f\u20e3" + strings.Repeat("1\ufe0f\u20e3", 15): KindCard, // keycaps
		"4\u0301" + strings.Repeat("1\u0301", 15):             KindCard, // accents
		"ssn 2 1 9 0 9 9 9 9 9":                               KindSSN, "aadhaar 2 3 4 1 2 3 4 1 2 3 4 6": KindAadhaar, "NHS 9 4 3 4 7 6 5 9 1 9": KindNHS, "529982247-25": KindCPF,
		"529-982-247-25": KindCPF, "https://a.example/?q=4111%201111%201111%201111&x=1": KindCard, "/pay?card=4111+1111+1111+1111": KindCard,
	} {
		require.Contains(t, kindsIn(t, s, text), kind, "%q", text)
	}
}

// Rows, lists, sums, paths and longer numbers are none, though pieces of them pass a check.
func TestSpellingsOfNothing(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	for _, text := range []string{
		"4111\t1111\t1111\t1111", "a,4111,1111,1111,1111,b", "4111 + 1111 + 1111 + 1111 = 7444", "4111;1111;1111;1111\n", "[4,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
		"4111/1111/1111/1111/1111", "1/4111/1111/1111/1111", "/a/4111/1111/1111/1111", "4111_1111_1111_1111_1111", "x_4111_1111_1111_1111", "4111_1111_1111_1111L",
		"4111--1111--1111--1111--1111", "4111 - 1111 - 1111 - 1111 - 1111", "4111%201111%201111%201111%201111", "4111/1111/1111/1112", "4111~1111~1111~111",
		"order 4111/1111/1111/1111", "order4111111111111111", "id4111111111111111", "x4111111111111111", "4111111111111111/13/28", "4111111111111111/12/68", "4111111111111111/1228x",
		"card 7\t4111\t1111\t1111\t1111", "5   4111   1111   1111   1111", "3 - 4111 - 1111 - 1111 - 1111",
		"4111/1111/1111/1111L", "4111 - 1111 - 1111 - 1111th", "6259-9684-2489-6838-1036", "6259 9684 2489 6838 1036 8606", "0.4111_1111_1111_1111",
		"219\t09\t9999", "219/09/9999", "ZIP 60601-1234 on file, SSN withheld", "2341\t2341\t2346", "943\t476\t5919", "529\t982\t247\t25", "529,982,247,25",
		"110105\t19491331\t002X", "DE89\t3704\t0044\t0532\t0130\t01", "DE89\t3704 0044\t0532\t0130\t00",
	} {
		require.Empty(t, kindsIn(t, s, text), "%q", text)
	}
	// At random, without a word: tables are never taken for anything.
	r := rand.New(rand.NewPCG(6, 6))
	for by, tabular := range joints {
		if !tabular {
			continue
		}
		for range 300 {
			row := make([]string, 1+r.IntN(8))
			for i := range row {
				row[i] = fmt.Sprintf("%0*d", 3+r.IntN(3), r.IntN(1000))
				if r.IntN(2) == 0 {
					row[i] = fmt.Sprint(1000 + r.IntN(9000))
				}
			}
			text := strings.Join(row, by)
			found := slices.DeleteFunc(kindsIn(t, s, text), func(k Kind) bool { return k == KindPhone })
			require.Empty(t, found, "%q", text)
		}
	}
}
