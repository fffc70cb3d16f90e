package providers

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A body that names a model is sent with the provider's name for it, whatever type it is
// said to have, or not at all.
func TestPassedBodiesAreRenamed(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{}`))
	theirs := oneOffer(t, OpenAI{}, svc.URL)
	same := oneOffer(t, OpenAI{}, svc.URL, func(p *Provider, _ *Options) { p.Models = []Model{{Name: "ours"}} })
	for name, c := range map[string]struct {
		offer             *Offer
		kind, body, sends string // "": it is not sent
	}{
		"JSON":              {theirs, "application/json; charset=utf-8", `{"model":"ours"}`, `{"model":"theirs"}`},
		"a kind of JSON":    {theirs, "application/x+json", `{"model":"ours"}`, `{"model":"theirs"}`},
		"no type":           {theirs, "", `{"model":"ours"}`, `{"model":"theirs"}`},
		"a form":            {theirs, "multipart/form-data; boundary=x", "--x\r\n", ""},
		"text":              {theirs, "text/plain", `{"model":"ours"}`, ""},
		"a form, same name": {same, "multipart/form-data; boundary=x", "--x\r\n", "--x\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			before := svc.count()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://g.test/v1/audio/transcriptions", strings.NewReader(c.body))
			require.NoError(t, err)
			if c.kind != "" {
				r.Header.Set("Content-Type", c.kind)
			}
			if c.sends == "" {
				no := fails(t, c.offer, Exchange{}, r)
				assert.Equal(t, ClassUnsupported, no.Class)
				assert.Contains(t, no.Error(), "only in JSON")
				assert.Equal(t, before, svc.count())
				return
			}
			resp, err := c.offer.RoundTripper(nil, Exchange{}).RoundTrip(r)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, c.sends, svc.last(t).Body)
		})
	}
}

// Where many share the account, nobody's key of idempotency is another's.
func TestScopedIdempotencyKeys(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{}`))
	o := oneOffer(t, OpenAI{}, svc.URL)
	sent := func(scope, key string) string {
		r := newRequest(t, t.Context(), chat, `{"model":"ours"}`)
		if key != "" {
			r.Header.Set(idempotencyKey, key)
		}
		resp, err := o.RoundTripper(nil, Exchange{API: chat, Scope: scope}).RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return svc.last(t).Header.Get(idempotencyKey)
	}
	assert.Equal(t, "k", sent("", "k"))
	assert.Empty(t, sent("alice", ""))
	alices := sent("alice", "k")
	assert.Len(t, alices, 64)
	assert.Equal(t, alices, sent("alice", "k"))
	assert.NotEqual(t, alices, sent("bob", "k"))
	assert.NotEqual(t, sent("al", "icek"), sent("alice", "k"))
}
