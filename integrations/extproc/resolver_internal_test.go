package extproc

import (
	"context"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}

// An address has one spelling, whatever the fleet's.
func TestEndpointsAreSpelledAsEnvoyDoes(t *testing.T) {
	var r resolver
	for from, want := range map[string]string{
		"http://10.0.0.7:8000":              "10.0.0.7:8000",
		"http://10.0.0.7":                   "10.0.0.7:80",
		"https://[::1]":                     "[::1]:443",
		"http://[0:0:0:0:0:0:0:1]:8000":     "[::1]:8000",
		"http://[2001:DB8::0a]:8000":        "[2001:db8::a]:8000",
		"http://[::ffff:10.0.0.7]:8000":     "10.0.0.7:8000",
		"http://[0:0::ffff:0a00:0007]:8000": "10.0.0.7:8000",
	} {
		got, err := r.endpoint(t.Context(), parse(t, from))
		require.NoError(t, err)
		require.Equal(t, want, got, from)
		require.Equal(t, want, spelled(want))
	}
	require.Equal(t, "10.0.0.7:80", spelled("[::ffff:10.0.0.7]:80"))
	require.Equal(t, "name:80", spelled("name:80"))
}

// A failure is remembered, so that each request does not wait for it anew.
func TestFailedLookupsAreRemembered(t *testing.T) {
	asked := 0
	r := resolver{look: func(context.Context, string, string) ([]netip.Addr, error) { asked++; return nil, nil }}
	_, err := r.endpoint(t.Context(), parse(t, "http://w:1"))
	require.ErrorIs(t, err, errNoAddress)
	l := r.known["w"]
	l.until = l.until.Add(lookupKept) // however slow the machine
	_, err = r.endpoint(t.Context(), parse(t, "http://w:1"))
	require.ErrorIs(t, err, errNoAddress)
	require.Equal(t, 1, asked)
	l.until = l.until.Add(-2 * lookupKept)
	_, err = r.endpoint(t.Context(), parse(t, "http://w:1"))
	require.ErrorIs(t, err, errNoAddress)
	require.Equal(t, 2, asked)
}

// Who leaves does not spoil the lookup for the others.
func TestLookupsOutliveWhoAsked(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	r := resolver{look: func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		close(begun) // twice would panic
		<-answer
		return []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:10.0.0.7")}, ctx.Err()
	}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err := r.endpoint(ctx, parse(t, "http://w:1"))
	require.ErrorIs(t, err, context.Canceled)
	close(answer)
	got, err := r.endpoint(t.Context(), parse(t, "http://w:1"))
	require.NoError(t, err)
	require.Equal(t, "10.0.0.7:1", got)
}

// All alternatives together have the time of one lookup.
func TestAlternativesShareOneBudget(t *testing.T) {
	s := &Server{opts: Options{Endpoints: defaultEndpoints}}
	s.resolver.look = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var rest []kvsteer.Target
	for _, host := range []string{"a", "b", "c", "10.0.0.8"} {
		rest = append(rest, kvsteer.Target{URL: parse(t, "http://"+host)})
	}
	d, err := s.destination(t.Context(), kvsteer.Target{URL: parse(t, "http://10.0.0.7")}, rest)
	require.NoError(t, err)
	require.Equal(t, "10.0.0.7:80,10.0.0.8:80", d.list, "what needs no time is named in any case")
	<-s.resolver.known["a"].done
	require.Len(t, s.resolver.known, 1, "no more are begun when the time is over")
}
