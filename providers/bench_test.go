package providers

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkPassThrough sends the same requests, in turn, through a plain
// httputil.ReverseProxy and through one whose transport is an Offer's. It reports the
// median of each, and what the second adds, in microseconds: for a whole answer, and for
// the 200 events of a stream.
func BenchmarkPassThrough(b *testing.B) {
	chunk := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"theirs","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n"
	for name, c := range map[string]struct{ mime, answer string }{
		"whole":  {"application/json", chatAnswer},
		"stream": {"text/event-stream", strings.Repeat(chunk, 200) + "data: [DONE]\n\n"},
	} {
		b.Run(name, func(b *testing.B) {
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", c.mime)
				_, _ = io.WriteString(w, c.answer)
			}))
			b.Cleanup(backend.Close)
			target, err := url.Parse(backend.URL)
			require.NoError(b, err)
			o := oneOffer(b, OpenAI{}, backend.URL, func(p *Provider, _ *Options) { p.Credentials = Static("key") })
			base := &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true}
			b.Cleanup(base.CloseIdleConnections)

			plain := front(b, &httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: base,
				ErrorLog: log.New(io.Discard, "", 0),
			})
			ours := front(b, &httputil.ReverseProxy{
				Rewrite: func(*httputil.ProxyRequest) {}, Transport: through(func(r *http.Request) (*http.Response, error) {
					k := o.Begin(1000, 100)
					resp, err := o.RoundTripper(base, Exchange{API: chat, Booking: k}).RoundTrip(r)
					k.End()
					return resp, err
				}),
			})
			body := `{"model":"ours","messages":[` + strings.Repeat(`{"role":"user","content":"What is the capital of France, and why?"},`, 50) +
				`{"role":"user","content":"Hi"}],"stream":false}`
			var times, firsts [2][]time.Duration
			for i := 0; b.Loop(); i++ {
				for k := range 2 { // in turn, and each of them first in half of the rounds
					which := (k + i) % 2
					if first, all, ok := post(b, []string{plain, ours}[which], body); ok {
						firsts[which], times[which] = append(firsts[which], first), append(times[which], all)
					}
				}
			}
			median := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2].Microseconds())
			}
			p, q := median(times[0]), median(times[1])
			b.ReportMetric(p, "plain-p50-µs")
			b.ReportMetric(q, "provider-p50-µs")
			b.ReportMetric(q-p, "added-p50-µs")
			b.ReportMetric(median(firsts[1])-median(firsts[0]), "added-first-byte-p50-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

type through func(*http.Request) (*http.Response, error)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func front(b *testing.B, h http.Handler) string {
	b.Helper()
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	return s.URL
}

// post measures until the first byte and the last, and reports whether the answer came whole: a plain ReverseProxy breaks one in thousands
// off, when the answer begins before it has seen the end of the request's body.
func post(b *testing.B, url, body string) (first, all time.Duration, ok bool) {
	b.Helper()
	start := time.Now()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+chat.Path(), strings.NewReader(body))
	require.NoError(b, err)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(b, err)
	_, err = io.ReadFull(resp.Body, make([]byte, 1))
	require.NoError(b, err)
	first = time.Since(start)
	_, err = io.Copy(io.Discard, resp.Body)
	all = time.Since(start)
	require.NoError(b, resp.Body.Close())
	return first, all, err == nil && resp.StatusCode == http.StatusOK
}

func BenchmarkStandingAndExpect(b *testing.B) {
	o := oneOffer(b, OpenAI{}, "http://127.0.0.1:1")
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		o.Standing(now)
		o.Expect(1000, 100)
	}
}
