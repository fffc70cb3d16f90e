package classify

import (
	"slices"
	"strings"
	"testing"
)

// What is found in a text by itself is found between whatever people write around it.
func TestSurroundingsHideNothing(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	before := []string{
		"", " ", "(", "[", "\"", "'", "=", ": ", ":", "：", "、", "12 ", "a ", "x=", "\t", "\n", "- ", "* ", "|", "<b>", "号", "，", "é", "no. ", "1) ",
		"3. ", "$5 ", "2024-05-01 ", "10:00 ", ", ", "x,", "; ", "“", "\\n", "\\t", "— ", "…", "ok.\n", "I have 3 and ", "\u200b", "{\"v\":\"", "<td>", "> ", "`", "**",
	}
	after := []string{
		"", " ", ".", ",", ";", "!", "?", ")", "]", "\"", "'", "\n", " 12", " 5 years", ", 12", ". 12", ".\n", "。", "です", "|", "<", "&", " - x", " (x)",
		" 2024-05-01", " 10:00", "…", " $5", "\\n", "\\n12", ":", " and 4 more", "\u200b.", "\"}", "</td>", "`", "**", " / 3", "\t7", "，", ",x",
	}
	for k, text := range map[Kind]string{
		KindCard: "4111111111111111", "card ": "4111 1111 1111 1111", "card-": "4111-1111-1111-1111", "amex": "3782 822463 10005", KindIBAN: "DE89370400440532013000",
		"iban ": "DE89 3704 0044 0532 0130 00", KindSSN: "123-45-6789", KindCNID: "11010519491231002X", KindAadhaar: "2341 2341 2346",
		KindCPF: "529.982.247-25", "cpf ": "52998224725", KindNHS: "943 476 5919", KindEmail: "bob@example.com", KindPhone: "+44 20 7946 0958",
		"phone(": "(415) 555-0123", "phone-": "415-555-0123", KindAWSKey: "AKIA" + "IOSFODNN7EXAMPLE", KindGitHub: "gh" + "p_1234567890abcdefghijklmnopqrstuvwxyz",
		KindSlack: "xox" + "b-12345678901-12345678901-abcdefABCDEF", KindJWT: "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N", KindPrivateKey: "-----BEGIN PRIVATE KEY-----",
	} {
		want := map[Kind]Kind{"amex": KindCard}[k]
		if want == "" {
			want = Kind(strings.TrimRight(string(k), " -("))
		}
		for _, b := range before {
			for _, a := range after {
				if found := kindsIn(t, s, b+text+a); !slices.Contains(found, want) {
					t.Errorf("%s: found %v in %q", want, found, b+text+a)
				}
			}
		}
	}
}
