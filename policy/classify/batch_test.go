package classify

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// picky is a classifier of texts of at most ten words, what it finds, and the sizes of
// the calls that it got.
func picky(t *testing.T) (l *Labels, sizes *[]int) {
	t.Helper()
	short := coded
	short.Context = 10
	sizes = new([]int)
	e := fake(t, "/classify", record(t, short, func(texts []string) { *sizes = append(*sizes, len(texts)) }))
	l, err := NewLabels(LabelsOptions{Endpoint: e, Rules: []Rule{{Tag: "code", Labels: []string{"code"}}, {Tag: "chat", Labels: []string{"chat"}}}})
	require.NoError(t, err)
	return l, sizes
}

func long(i int) string { return strings.Repeat("long ", 11+i) }

// An engine refuses a whole call for one text. The others are judged nevertheless.
func TestOneRefusedText(t *testing.T) {
	t.Parallel()
	l, sizes := picky(t)
	var out Result
	err := l.Classify(t.Context(), conversation("hi", long(0), "func"), &out)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorIs(t, err, ErrAnswer)
	require.ErrorContains(t, err, "MaxText")
	require.NotContains(t, err.Error(), long(0))
	require.Equal(t, []policy.Tag{{Name: "code", State: policy.TagPresent}, {Name: "chat", State: policy.TagPresent}}, out.Tags)
	require.Equal(t, []int{3, 2}, *sizes)

	out.Reset()
	require.ErrorIs(t, l.Classify(t.Context(), conversation("hi", long(0)), &out), ErrRefused)
	require.Equal(t, policy.TagUnknown, out.State("code"), "never absent")
	require.Equal(t, policy.TagPresent, out.State("chat"))
}

// Whichever texts are refused, and however long the others are, each other one is judged.
func TestRefusedTextsAreFound(t *testing.T) {
	t.Parallel()
	const n = 12
	for mask := range 1 << n {
		if mask%37 != 1 { // a sample
			continue
		}
		l, sizes := picky(t)
		var inputs []Input
		refused := 0
		for i := range n {
			text := strings.Repeat("x", 5*(i*7%n)) + "y" // of one word, long or short
			if mask>>i&1 == 1 {
				text = long(i * 5 % n)
				refused++
			}
			inputs = append(inputs, *conversation(text))
		}
		results := make([]Result, n)
		err := l.ClassifyMessages(t.Context(), inputs, results)
		if refused == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrRefused)
		}
		require.LessOrEqual(t, len(*sizes), 2*(mostRefused+1)+6)
		for i := range results {
			switch state := results[i].State("chat"); {
			case mask>>i&1 == 1:
				require.Equal(t, policy.TagUnknown, state, "%012b, %d", mask, i)
			case refused <= mostRefused:
				require.Equal(t, policy.TagPresent, state, "%012b, %d", mask, i)
			default: // it may not have come to that
				require.NotEqual(t, policy.TagAbsent, state, "%012b, %d", mask, i)
			}
		}
	}
}

// A service that refuses everything is not asked about each of a thousand messages.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	l, sizes := picky(t)
	var texts []string
	for i := range 1000 {
		texts = append(texts, long(i))
	}
	var out Result
	require.ErrorIs(t, l.Classify(t.Context(), conversation(texts...), &out), ErrRefused)
	require.Equal(t, policy.TagUnknown, out.State("code"))
	require.LessOrEqual(t, len(*sizes), 30)
}

// What was refused while others were not is remembered; what was refused alone may be
// the fault of a setting that somebody mends.
func TestRefusedTextsAreRemembered(t *testing.T) {
	t.Parallel()
	l, sizes := picky(t)
	set := newSet(t, members(l))
	var out Result
	for range 2 {
		require.ErrorIs(t, set.Classify(t.Context(), conversation(long(0)), &out), ErrRefused)
		require.Equal(t, policy.TagUnknown, out.State("code"))
	}
	require.Equal(t, []int{1, 1}, *sizes)
	require.ErrorIs(t, set.Classify(t.Context(), conversation(long(0), "hi"), &out), ErrRefused)
	require.Equal(t, []int{1, 1, 2, 1}, *sizes)
	require.NoError(t, set.Classify(t.Context(), conversation(long(0), "hi", "func"), &out))
	require.Equal(t, []int{1, 1, 2, 1, 1}, *sizes)
	require.Equal(t, policy.TagPresent, out.State("code"))
	require.NoError(t, set.Classify(t.Context(), conversation(long(0), "hi"), &out))
	require.Equal(t, policy.TagUnknown, out.State("code"))
}

// Other failures end it: nothing is gained by asking a service that is down again.
func TestFailuresAreNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusTooManyRequests, http.StatusInternalServerError} {
		calls := 0
		e := served(t, func(map[string]any) (int, string) {
			calls++
			return status, ""
		})
		m, err := NewModeration(ModerationOptions{Endpoint: e, Rules: []Rule{{Tag: "x"}}})
		require.NoError(t, err)
		var out Result
		err = m.Classify(t.Context(), conversation("a", "b", "c"), &out)
		require.ErrorIs(t, err, ErrAnswer)
		require.NotErrorIs(t, err, ErrRefused)
		require.Equal(t, 1, calls, status)
	}
}

// One message that an analyzer refuses does not keep it from being asked about others.
func TestPresidioRefusesOne(t *testing.T) {
	t.Parallel()
	e := served(t, func(asked map[string]any) (int, string) {
		if strings.Contains(fmt.Sprint(asked["text"]), "long") {
			return http.StatusRequestEntityTooLarge, "" // as a proxy before it does
		}
		return http.StatusOK, `[{"entity_type":"PERSON","start":0,"end":4,"score":0.9}]`
	})
	p, err := NewPresidio(PresidioOptions{Endpoint: e, Rules: []Rule{{Tag: "x"}}})
	require.NoError(t, err)
	inputs := []Input{*conversation(long(0)), *conversation("Mara")}
	results := make([]Result, len(inputs))
	require.ErrorIs(t, p.ClassifyMessages(t.Context(), inputs, results), ErrRefused)
	require.Empty(t, results[0].Tags)
	require.Equal(t, policy.TagPresent, results[1].State("x"))
}
