package classify

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	h := NewHeader("", "pii", "legal")
	require.Equal(t, []string{"pii", "legal"}, h.Tags())
	const p, a, u = policy.TagPresent, policy.TagAbsent, policy.TagUnknown
	tests := []struct {
		name   string
		header http.Header
		pii    policy.TagState
		legal  policy.TagState
		fails  bool
	}{
		{"not trusted", nil, u, u, false},
		{"no header", http.Header{}, u, u, false},
		{"both", http.Header{HeaderTags: {"pii=absent, legal=present"}}, a, p, false},
		{"one", http.Header{HeaderTags: {" pii = present ,"}}, p, u, false},
		{"two lines", http.Header{HeaderTags: {"pii=absent", "legal=absent,other=present"}}, a, a, false},
		{"twice", http.Header{HeaderTags: {"pii=absent", "pii=present"}}, p, u, false},
		{"twice, unknown", http.Header{HeaderTags: {"pii=absent,pii=unknown"}}, u, u, false},
		{"no state", http.Header{HeaderTags: {"pii=absent, legal"}}, u, u, true},
		{"no such state", http.Header{HeaderTags: {"pii=absent, legal=yes"}}, u, u, true},
	}
	set := newSet(t, members(h))
	for _, tt := range tests {
		in := said("text")
		in.Gaps = GapImage // whoever wrote the header has seen it
		in.TrustedHeader = tt.header
		var out Result
		err := set.Classify(t.Context(), in, &out)
		require.Equal(t, tt.fails, err != nil, tt.name)
		require.Equal(t, tt.pii, out.State("pii"), tt.name)
		require.Equal(t, tt.legal, out.State("legal"), tt.name)
	}
}
