package providers

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Whatever a client sends along, the provider gets what an API defines, and no more.
func TestHeadersByAllowlist(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{"model":"theirs"}`,
		"x-ratelimit-remaining-requests", "5", "openai-organization", "org-secret", "set-cookie", "a=b", "x-request-id", "r1",
		"anthropic-ratelimit-requests-remaining", "7", "server", "x", "retry-after", "3", "openai-model", "theirs-0613"))
	o := oneOffer(t, OpenAI{}, svc.URL, func(p *Provider, _ *Options) {
		p.Credentials, p.Header = Static("sk-ours"), http.Header{"openai-organization": {"org-1"}}
	})
	resp, _ := send(t, o, Exchange{API: chat}, `{"model":"ours"}`,
		"Authorization", "Bearer client", "Cookie", "c=d", "X-Api-Key", "client", "Api-Key", "client", "X-Forwarded-For", "10.0.0.1",
		"Forwarded", "for=10.0.0.1", "X-Kvsteer-Tenant", "t", "X-Kvsteer-Worker", "w", "Proxy-Authorization", "x", "Connection", "X-Foo",
		"Accept", "application/json", "OpenAI-Beta", "assistants=v2", "anthropic-beta", "b", "anthropic-version", "2023-06-01",
		"Idempotency-Key", "i1", "User-Agent", "client/1", "Accept-Encoding", "gzip", "Traceparent", "00-1", "Openai-Organization", "org-client")
	got := svc.last(t)
	got.Header.Del("Content-Length")
	assert.Equal(t, http.Header{
		"Authorization": {"Bearer sk-ours"}, "Content-Type": {"application/json"}, "Accept": {"application/json"},
		"Openai-Beta": {"assistants=v2"}, "Idempotency-Key": {"i1"}, "User-Agent": {"client/1"}, "Accept-Encoding": {"identity"},
		"Openai-Organization": {"org-1"},
	}, got.Header)
	assert.Equal(t, "/v1/chat/completions", got.URI)
	resp.Header.Del("Date")
	assert.Equal(t, http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {"16"}, "X-Request-Id": {"r1"},
	}, resp.Header)
}

// The body that is sent is the body that came, but for the model's name.
func TestBodyIsByteIdenticalButForTheModel(t *testing.T) {
	const in = "{ \"b\":9007199254740993,\t\"model\" : \"ours\" ,\r\n\"messages\":[ {\"model\":\"ours\"}],\"x\":1.0,\"mod\\u0065l\":\"ours\" }\n"
	const want = "{ \"b\":9007199254740993,\t\"model\" : \"theirs\" ,\r\n\"messages\":[ {\"model\":\"ours\"}],\"x\":1.0,\"mod\\u0065l\":\"theirs\" }\n"
	for name, c := range map[string]struct {
		kind Kind
		api  prompt.API
		uri  string
	}{
		"OpenAI, chat":          {OpenAI{}, prompt.Chat, "/v1/chat/completions"},
		"OpenAI, completions":   {OpenAI{}, prompt.Completions, "/v1/completions"},
		"Anthropic":             {Anthropic{}, prompt.Messages, "/v1/messages"},
		"Azure":                 {AzureOpenAI{}, prompt.Responses, "/openai/v1/responses"},
		"Azure, deployments":    {AzureOpenAI{APIVersion: "2024-10-21"}, prompt.Chat, "/openai/deployments/theirs/chat/completions?api-version=2024-10-21"},
		"Azure, old, responses": {AzureOpenAI{APIVersion: "2025-03-01-preview"}, prompt.Responses, "/openai/responses?api-version=2025-03-01-preview"},
	} {
		t.Run(name, func(t *testing.T) {
			svc := serve(t, says(http.StatusOK, `{}`))
			o := oneOffer(t, c.kind, svc.URL)
			send(t, o, Exchange{API: c.api}, in)
			sent := svc.last(t).Body
			assert.True(t, want == sent, "%q", sent) //nolint:testifylint // to the byte
			assert.Equal(t, c.uri, svc.last(t).URI)
		})
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		kind      Kind
		url, want string
	}{
		{OpenAI{}, "", "https://api.openai.com/v1/chat/completions"},
		{OpenAI{}, "https://api.openai.com", "https://api.openai.com/v1/chat/completions"},
		{OpenAI{}, "https://x.test/", "https://x.test/v1/chat/completions"},
		{OpenAI{}, "https://api.together.xyz/v1", "https://api.together.xyz/v1/chat/completions"},
		{OpenAI{}, "https://dbc.test/serving-endpoints/", "https://dbc.test/serving-endpoints/chat/completions"},
		{OpenAI{}, "https://x.test/a%2Fb", "https://x.test/a%2Fb/chat/completions"},
		{Gemini{}, "", "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"},
		{AzureOpenAI{}, "https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/chat/completions"},
		{AzureOpenAI{}, "https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1/chat/completions"},
		{
			AzureOpenAI{APIVersion: "v"},
			"https://r.openai.azure.com/openai",
			"https://r.openai.azure.com/openai/deployments/a%2Fb/chat/completions?api-version=v",
		},
		{Anthropic{}, "", "https://api.anthropic.com/v1/messages"},
		{Anthropic{}, "https://proxy.test/anthropic/v1/", "https://proxy.test/anthropic/v1/messages"},
	} {
		p := Provider{Name: "p", Kind: c.kind, URL: c.url, Models: []Model{{Name: "a/b"}}}
		o := newSet(t, Options{}, p).Offers("a/b")[0]
		api := prompt.Chat
		if _, ok := c.kind.(Anthropic); ok {
			api = prompt.Messages
		}
		u, err := o.from.Kind.Endpoint(o.url, &Target{API: api, Upstream: o.Upstream()})
		require.NoError(t, err)
		assert.Equal(t, c.want, u.String())
	}
}

func TestCredentialsOfKinds(t *testing.T) {
	for name, c := range map[string]struct {
		kind   Kind
		header string
		want   string
	}{
		"OpenAI":            {OpenAI{}, "Authorization", "Bearer s3cret"},
		"Gemini":            {Gemini{}, "Authorization", "Bearer s3cret"},
		"Azure":             {AzureOpenAI{}, "Api-Key", "s3cret"},
		"Azure, Entra":      {AzureOpenAI{Entra: true}, "Authorization", "Bearer s3cret"},
		"Anthropic":         {Anthropic{}, "X-Api-Key", "s3cret"},
		"Anthropic, bearer": {Anthropic{Bearer: true}, "Authorization", "Bearer s3cret"},
	} {
		t.Run(name, func(t *testing.T) {
			api := prompt.Chat
			if strings.HasPrefix(name, "Anthropic") {
				api = prompt.Messages
			}
			svc := serve(t, says(http.StatusOK, `{}`))
			o := oneOffer(t, c.kind, svc.URL, func(p *Provider, _ *Options) { p.Credentials = Static("s3cret") })
			send(t, o, Exchange{API: api}, `{"model":"ours"}`)
			h := svc.last(t).Header
			var with []string
			for name := range h {
				if strings.Contains(h.Get(name), "s3cret") {
					with = append(with, name)
				}
			}
			assert.Equal(t, []string{c.header}, with)
			assert.Equal(t, c.want, h.Get(c.header))
			if api == prompt.Messages {
				assert.Equal(t, "2023-06-01", h.Get("Anthropic-Version"))
			}
		})
	}
}

// The model in an answer is the one that was asked for; every other byte is the provider's.
func TestModelOfAnswers(t *testing.T) {
	big := strings.Repeat("0.125,", small/6+7)
	for name, c := range map[string]struct {
		kind     Kind
		api      prompt.API
		mime     string
		in, want string
		chunked  bool
	}{
		"first":                 {OpenAI{}, chat, "application/json", `{"model":"theirs-0613", "x":1.0}`, `{"model":"al\"ias", "x":1.0}`, false},
		"in the middle":         {OpenAI{}, chat, "application/json; charset=utf-8", "{\"id\":\"a\",\n \"model\" : \"th\\\"eirs\" ,\"x\":[{\"model\":\"m\"}]}", "{\"id\":\"a\",\n \"model\" : \"al\\\"ias\" ,\"x\":[{\"model\":\"m\"}]}", false},
		"a string that says so": {OpenAI{}, chat, "application/json", `{"c":"\"model\":\"x\"","model":"m","d":"model"}`, `{"c":"\"model\":\"x\"","model":"al\"ias","d":"model"}`, false},
		"an object": {
			OpenAI{},
			chat, "application/json", `{"model":{"a":"b","model":"c"},"x":["model","y"]}`,
			`{"model":{"a":"b","model":"c"},"x":["model","y"]}`, false,
		},
		"null":             {OpenAI{}, chat, "application/json", `{"model":null,"a":"model"}`, `{"model":null,"a":"model"}`, false},
		"none":             {OpenAI{}, chat, "application/json", `{"modelx":"a","mode":"b"}`, `{"modelx":"a","mode":"b"}`, false},
		"no JSON":          {OpenAI{}, chat, "application/json", `<html>"model":"x"`, `<html>"model":"x"`, false},
		"not JSON":         {OpenAI{}, chat, "text/plain", `{"model":"theirs"}`, `{"model":"theirs"}`, false},
		"no length":        {OpenAI{}, chat, "application/json", `{"a":[1,{"model":"b"}],"model":"theirs"}`, `{"a":[1,{"model":"b"}],"model":"al\"ias"}`, true},
		"long, at its end": {OpenAI{}, prompt.Embeddings, "application/json", `{"data":[` + big + `1],"model":"theirs"}`, `{"data":[` + big + `1],"model":"al\"ias"}`, false},
		"messages":         {Anthropic{}, prompt.Messages, "application/json", `{"id":"m","model":"theirs"}`, `{"id":"m","model":"al\"ias"}`, false},
		"stream of chat": {
			OpenAI{},
			chat, "text/event-stream",
			": hi\n\ndata: {\"model\":\"theirs\",\"choices\":[]}\r\n\r\nevent: x\ndata:{\"a\":\"\\\"model\\\"\", \"model\" : \"theirs\"}\n\ndata: [DONE]\n\n",
			": hi\n\ndata: {\"model\":\"al\\\"ias\",\"choices\":[]}\r\n\r\nevent: x\ndata:{\"a\":\"\\\"model\\\"\", \"model\" : \"al\\\"ias\"}\n\ndata: [DONE]\n\n", true,
		},
		"stream, nested and first": {
			OpenAI{},
			chat, "text/event-stream",
			"data: {\"a\":{\"model\":\"x\"},\"model\":\"theirs\"}\n\ndata: {\"type\":\"model\",\"b\":1}\n\ndata: [\"model\"]\n\n",
			"data: {\"a\":{\"model\":\"x\"},\"model\":\"al\\\"ias\"}\n\ndata: {\"type\":\"model\",\"b\":1}\n\ndata: [\"model\"]\n\n", true,
		},
		"stream of messages": {
			Anthropic{},
			prompt.Messages, "text/event-stream; charset=utf-8",
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"1\",\"model\":\"theirs\"}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"1\",\"model\":\"al\\\"ias\"}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n", true,
		},
		"stream of responses": {
			AzureOpenAI{},
			prompt.Responses, "text/event-stream",
			"event: response.created\ndata: {\"response\":{\"model\":\"theirs\"}}\n\ndata: {\"delta\":\"x\"}\n\n",
			"event: response.created\ndata: {\"response\":{\"model\":\"al\\\"ias\"}}\n\ndata: {\"delta\":\"x\"}\n\n", true,
		},
		"a stream that ends early": {OpenAI{}, chat, "text/event-stream", "data: {\"model\":\"theirs\"}\n\ndata: {\"mo", "data: {\"model\":\"al\\\"ias\"}\n\ndata: {\"mo", true},
	} {
		t.Run(name, func(t *testing.T) {
			svc := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.mime)
				if !c.chunked {
					w.Header().Set("Content-Length", strconv.Itoa(len(c.in)))
				}
				_, _ = io.WriteString(w, c.in)
			})
			models := func(p *Provider, _ *Options) {
				p.Models = []Model{{Name: "ours", Upstream: "theirs", APIs: []prompt.API{c.api}}}
			}
			resp, text := send(t, oneOffer(t, c.kind, svc.URL, models), Exchange{API: c.api, Asked: `al"ias`}, `{"model":"ours"}`)
			assert.True(t, c.want == text, "got %.300q", text) //nolint:testifylint // texts of a megabyte
			if resp.ContentLength >= 0 {
				assert.Equal(t, int64(len(text)), resp.ContentLength)
				assert.Equal(t, strconv.Itoa(len(text)), resp.Header.Get("Content-Length"))
			} else {
				assert.Empty(t, resp.Header.Get("Content-Length"))
			}
			_, text = send(t, oneOffer(t, c.kind, svc.URL, models, func(p *Provider, _ *Options) { p.KeepModel = true }),
				Exchange{API: c.api, Asked: "alias"}, `{"model":"ours"}`)
			assert.True(t, c.in == text, "KeepModel keeps it") //nolint:testifylint // as above
		})
	}
}

// However an answer is split into reads, the renamed one is the same.
func FuzzRenamer(f *testing.F) {
	f.Add([]byte(`{"a":"\"model\":\"x\"","model":"m","d":["model",{"model":"x"}]}`), uint8(1))
	f.Add([]byte(`{"model":"m\\"}`), uint8(3))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		name := []byte(`"new"`)
		whole := renamer{name: name}
		want := whole.feed(nil, in)
		r := &renamed{src: io.NopCloser(bytes.NewReader(in)), r: renamer{name: name}}
		if step == 1 {
			r.src = io.NopCloser(iotest.OneByteReader(bytes.NewReader(in)))
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(want, got) {
			t.Fatalf("%q: %q, then %q, %v", in, want, got, err)
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(in, &before) != nil {
			return
		}
		if err := json.Unmarshal(want, &after); err != nil {
			t.Fatalf("%q became %q: %v", in, want, err)
		}
		for k, v := range before {
			if k == "model" && len(v) > 0 && v[0] == '"' {
				v = name
			}
			// A key that is spelled with escapes, or given twice, is not what services send.
			if k == "model" && !bytes.Contains(in, []byte(`"model"`)) || bytes.Count(in, []byte(`model`)) > 1 || bytes.ContainsRune(in, '\\') {
				continue
			}
			if !bytes.Equal(bytes.TrimSpace(v), bytes.TrimSpace(after[k])) {
				t.Fatalf("%q became %q", in, want)
			}
		}
	})
}

// Events pass one by one: the first is there while the second isn't made.
func TestStreamsPassEventByEvent(t *testing.T) {
	next := make(chan struct{})
	svc := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = io.WriteString(w, "data: {\"model\":\"theirs\",\"n\":"+strconv.Itoa(i)+"}\n\n")
			assert.NoError(t, http.NewResponseController(w).Flush())
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	o := oneOffer(t, OpenAI{}, svc.URL)
	resp, err := o.RoundTripper(nil, Exchange{API: chat}).RoundTrip(newRequest(t, t.Context(), chat, `{"model":"ours","stream":true}`))
	require.NoError(t, err)
	buf := make([]byte, 1000)
	for i := range 3 {
		n, err := resp.Body.Read(buf)
		require.NoError(t, err)
		assert.Equal(t, "data: {\"model\":\"ours\",\"n\":"+strconv.Itoa(i)+"}\n\n", string(buf[:n]))
		next <- struct{}{}
	}
	_, err = resp.Body.Read(buf)
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, resp.Body.Close())
}

func TestCompressedThoughNotAskedFor(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, `{"model":"theirs"}`)
	require.NoError(t, z.Close())
	svc := serve(t, says(http.StatusOK, zipped.String(), "Content-Encoding", "gzip"))
	o := oneOffer(t, OpenAI{}, svc.URL)
	resp, text := send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	assert.JSONEq(t, `{"model":"ours"}`, text)
	assert.Empty(t, resp.Header.Get("Content-Encoding"))

	svc.will(says(http.StatusBadRequest, zipped.String(), "Content-Encoding", "gzip"))
	_, text = send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	assert.JSONEq(t, `{"model":"theirs"}`, text)

	svc.will(says(http.StatusOK, "x", "Content-Encoding", "zstd"))
	no := fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours"}`))
	assert.Equal(t, ClassServer, no.Class)
}

// No answer: who is at fault depends on how that came.
func TestErrorsOfConnections(t *testing.T) {
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1")
	no := fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours"}`))
	assert.Equal(t, ClassConnect, no.Class)
	assert.Equal(t, 1, o.state.breaker.row)

	encrypted := httptest.NewUnstartedServer(nil)
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	t.Cleanup(encrypted.Close)
	o = oneOffer(t, OpenAI{}, encrypted.URL)
	no = fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours"}`))
	assert.Equal(t, ClassConnect, no.Class, "its certificate is nobody's")

	reset := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	o = oneOffer(t, OpenAI{}, reset.URL)
	no = fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours"}`))
	assert.Equal(t, ClassServer, no.Class, "it may have been served")
	assert.Equal(t, 1, reset.count())

	svc := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	o = oneOffer(t, OpenAI{}, svc.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	no = fails(t, o, Exchange{API: chat}, newRequest(t, ctx, chat, `{"model":"ours"}`))
	assert.Equal(t, ClassTimeout, no.Class)
	assert.Equal(t, 1, o.state.breaker.row)

	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, leave)
	no = fails(t, o, Exchange{API: chat}, newRequest(t, ctx, chat, `{"model":"ours"}`))
	require.ErrorIs(t, no, context.Canceled)
	assert.Equal(t, 1, o.state.breaker.row, "a client that leaves is nobody's fault")

	svc.will(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		assert.NoError(t, http.NewResponseController(w).Flush())
		panic(http.ErrAbortHandler)
	})
	resp, err := o.RoundTripper(nil, Exchange{API: chat}).RoundTrip(newRequest(t, t.Context(), chat, `{"model":"ours"}`))
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 1, o.state.breaker.row, "it began to serve, then died")
}

// A request that can't be sent is not sent, and its body is closed.
func TestNothingIsSent(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{}`))
	o := oneOffer(t, OpenAI{}, svc.URL, func(p *Provider, _ *Options) { p.Paths = []string{"/v1/files"} })
	for name, c := range map[string]struct {
		api   prompt.API
		url   string
		body  string
		class Class
	}{
		"no JSON":             {chat, "", `{"model":`, ClassRequest},
		"a list":              {chat, "", `[]`, ClassRequest},
		"embeddings":          {prompt.Embeddings, "", `{"model":"ours"}`, ClassUnsupported},
		"not below a version": {0, "http://g.test/files", "", ClassRequest},
		"below another one":   {0, "http://g.test/v2/v1/files", "", ClassRequest},
		"mounted":             {0, "http://g.test/mount/v1/embeddings", "", ClassRequest},
		"climbs":              {0, "http://g.test/v1/files/../admin", "", ClassRequest},
		"climbs, escaped":     {0, "http://g.test/v1/files/%2e%2e/admin", "", ClassRequest},
		"climbs, twice":       {0, "http://g.test/v1/files/%252e%252e/admin", "", ClassRequest},
		"another API's":       {0, "http://g.test/v1/messages/count_tokens", `{"model":"ours"}`, ClassUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			if c.url == "" {
				c.url = "http://g.test" + c.api.Path()
			}
			body := &closing{Reader: strings.NewReader(c.body)}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, body)
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			no := fails(t, o, Exchange{API: c.api}, r)
			assert.Equal(t, c.class, no.Class)
			assert.True(t, body.closed)
		})
	}
	assert.Zero(t, svc.count())
	assert.True(t, o.Standing(time.Now()).Ready)
}

type closing struct {
	io.Reader

	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// Paths with state pass as they are, to the provider that has it.
func TestStatefulPaths(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{"id":"file-1","model":"theirs"}`))
	set := newSet(t, Options{}, Provider{
		Name: "p", Kind: OpenAI{}, URL: svc.URL, Credentials: Static("k"), Paths: []string{"/v1/files", "/v1/batches/"},
		Models: []Model{{Name: "ours"}},
	}, Provider{Name: "q", Kind: AzureOpenAI{APIVersion: "v1"}, URL: svc.URL, Paths: []string{"/v1/files/azure"}})
	for path, want := range map[string]string{
		"/v1/files": "p", "/v1/files/file-1/content": "p", "/v1/batches": "p", "/v1/files/": "p", "/v1/files/azure/x": "q",
		"/v1/filesystem": "", "/v1": "", "": "", "/": "", "/v1/files/../x": "", "//v1/files": "", "/v2/files": "",
	} {
		o := set.ForPath(path)
		if want == "" {
			assert.Nil(t, o, path)
			continue
		}
		require.NotNil(t, o, path)
		assert.Equal(t, want, o.Provider(), path)
		assert.Empty(t, o.Model())
	}
	ok, why := set.ForPath("/v1/files").Takes(chat, parse(t, `{}`))
	assert.False(t, ok)
	assert.Equal(t, whyNoModel, why)

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://g.test/v1/files/a%2Fb?limit=2&after=x", strings.NewReader("--x\r\nmodel"))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	resp, err := set.ForPath("/v1/files").RoundTripper(nil, Exchange{}).RoundTrip(r)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.JSONEq(t, `{"id":"file-1","model":"theirs"}`, string(text))
	got := svc.last(t)
	assert.Equal(t, "/v1/files/a%2Fb?limit=2&after=x", got.URI)
	assert.Equal(t, "--x\r\nmodel", got.Body)
	assert.Equal(t, "multipart/form-data; boundary=x", got.Header.Get("Content-Type"))
	assert.Equal(t, "Bearer k", got.Header.Get("Authorization"))

	r, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://g.test/v1/files/azure/x?after=y", nil)
	require.NoError(t, err)
	resp, err = set.ForPath("/v1/files/azure/x").RoundTripper(nil, Exchange{}).RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "/openai/files/azure/x?api-version=v1&after=y", svc.last(t).URI)

	svc.will(says(http.StatusNotFound, `{"error":{"message":"No such File object"}}`))
	r, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://g.test/v1/files/gone", nil)
	require.NoError(t, err)
	missing, what := finish(t, set.ForPath("/v1/files/gone"), Exchange{}, r)
	assert.Equal(t, ClassRequest, failureOf(t, missing).Class, "it is not the model that is missing")
	assert.Contains(t, what, "No such File object")

	r, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://g.test/v1/chat/completions", nil)
	require.NoError(t, err)
	no := fails(t, set.ForPath("/v1/files"), Exchange{}, r)
	assert.Equal(t, ClassUnsupported, no.Class, "not one of its paths")
}

// count_tokens is a path of a model: its name is put in.
func TestCountTokens(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{"input_tokens":7}`))
	o := oneOffer(t, Anthropic{}, svc.URL)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://g.test/v1/messages/count_tokens?beta=true", strings.NewReader(`{"model":"ours"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Beta", "b1")
	resp, err := o.RoundTripper(nil, Exchange{Asked: "ours"}).RoundTrip(r)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.JSONEq(t, `{"input_tokens":7}`, string(text))
	assert.JSONEq(t, `{"model":"theirs"}`, svc.last(t).Body)
	assert.Equal(t, "/v1/messages/count_tokens?beta=true", svc.last(t).URI)
	assert.Equal(t, "b1", svc.last(t).Header.Get("Anthropic-Beta"))
}

func TestRequestWhoseBodyFails(t *testing.T) {
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1")
	r := newRequest(t, t.Context(), chat, "")
	r.Body = io.NopCloser(iotest.ErrReader(errors.New("gone")))
	no := fails(t, o, Exchange{API: chat}, r)
	assert.Equal(t, ClassRequest, no.Class)
	assert.Zero(t, o.state.breaker.row)
}
