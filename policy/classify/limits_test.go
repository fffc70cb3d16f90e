package classify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// What docs/classify.md says is not detected. When something here is found one day,
// the page is to be changed, too.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	for _, tt := range []struct{ what, text string }{
		{"names", "My name is Mara Lindqvist and I was born on 3 May 1987."},
		{"addresses", "Send it to 12 Rosewood Lane, Springfield."},
		{"passports", "Passport C01X00T47"},
		{"ids of other countries", "DNI 12345678Z, NINO QQ123456C, Steuer-ID 02476291358, NIR 2 55 08 14 168 025 38"},
		{"ids of other countries", "SIN 046 454 286, TFN 123 456 782"},
		{"ITIN", "ITIN 912-70-1234"},
		{"old ids of China", "130503670401001"},
		{"a bare SSN", "it is 123456789"},
		{"a bare Aadhaar number", "it is 234123412346"},
		{"a bare NHS number", "it is 9434765919"},
		{"a bare telephone number", "it is 07700 900123"},
		{"a bare telephone number", "it is 4155550123"},
		{"network addresses", "198.51.100.7, 00:1A:2B:3C:4D:5E"},
		{"wallets", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"},
		{"passwords", "my password is hunter2, password=correct-horse"},
		{"other keys", "AccountKey=Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmF6cXV4Zm9vYg=="},
		{"numbers of things", "order 4111111111111111"},
		{"obfuscation", "bob [at] example [dot] com"},
		{"obfuscation", "bob&#64;example.com"},
		{"obfuscation", "four one seven two, nine eight one six, two three five zero, one four six nine"},
		{"obfuscation", "4111 11I1 1111 11l1"},
		{"obfuscation", "4*1*1*1*1*1*1*1*1*1*1*1*1*1*1*1"},
		{"obfuscation", "card (4111) 1111-1111-1111, [4111][1111][1111][1111], 4111<br>1111<br>1111<br>1111"},
		{"obfuscation", "card 4111 and 1111 and 1111 and 1111, '4111' '1111' '1111' '1111'"},
		{"obfuscation", "card %34%31%31%31%31%31%31%31%31%31%31%31%31%31%31%31"},
		{"glued to letters", "card x4111111111111111x, 4111111111111111abc, xcard4111111111111111"},
		{"paths", "https://a.example/card/4111111111111111"},
		{"as tables have them", "4111\t1111\t1111\t1111, 4111,1111,1111,1111"},
		{"other groups", "4111 11111111 1111, DE 89 37040044 0532013000, SSN 21909 9999"},
		{"other groups", "card 41 11 11 11 11 11 11 11"},
		{"obfuscation", "⁴¹¹¹¹¹¹¹¹¹¹¹¹¹¹¹ ④①①①①①①①①①①①①①①①"},
		{"obfuscation", "Ym9iQGV4YW1wbGUuY29t"},
		{"several lines", "4111 1111\n1111 1111"},
	} {
		require.Empty(t, kindsIn(t, s, tt.text), "%s: %s", tt.what, tt.text)
	}
	// Over two messages.
	var out Result
	require.NoError(t, s.Classify(t.Context(), conversation("4111 1111", "1111 1111"), &out))
	require.Equal(t, policy.TagAbsent, out.State(TagPII))
}
