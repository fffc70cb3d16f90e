package providers

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

func TestUpdateKeepsWhatStayed(t *testing.T) {
	clock := newClock()
	base := func() Provider {
		return Provider{
			Name: "p", Kind: OpenAI{}, URL: "http://127.0.0.1:1", Labels: map[string]string{"region": "eu"}, Credentials: Static("k"),
			Header: http.Header{"X-A": {"b"}}, Models: []Model{{Name: "a", Upstream: "x", Prices: &price.Prices{Input: 1}}, {Name: "b", Labels: map[string]string{"tier": "1"}}},
		}
	}
	set := newSet(t, Options{Now: clock.now}, base())
	a, b := set.Offers("a")[0], set.Offers("b")[0]
	assert.Equal(t, "p/a@1", a.ID())
	assert.Equal(t, "p/b@2", b.ID())
	assert.Equal(t, map[string]string{"region": "eu", "tier": "1"}, b.Labels())
	under := a.Begin(10, 10)
	a.state.bad(under, ClassRateLimited, time.Minute, true, clock.now())

	require.NoError(t, set.Update([]Provider{base()}))
	assert.Same(t, a, set.Offers("a")[0], "the same pointer for the same configuration")
	assert.Same(t, b, set.Offers("b")[0])

	// Another price, another label: another Offer, with what was learned.
	p := base()
	p.Models[0].Prices.Input = 2
	require.NoError(t, set.Update([]Provider{p}))
	again := set.Offers("a")[0]
	assert.NotSame(t, a, again)
	assert.Equal(t, "p/a@3", again.ID())
	assert.Same(t, a.state, again.state)
	assert.Same(t, a.account, again.account)
	assert.Equal(t, 1, again.Standing(clock.now()).InFlight)
	assert.Equal(t, whyRate, again.Standing(clock.now()).Reason)
	assert.Same(t, b, set.Offers("b")[0])
	under.End()
	assert.Zero(t, again.Standing(clock.now()).InFlight)

	// What is given is copied: to change it later changes nothing.
	p.Models[0].Prices.Input, p.Labels["region"], p.Header["X-A"][0] = 9, "us", "z"
	assert.Equal(t, "eu", again.Labels()["region"])
	cost, known := again.Cost(&price.Tokens{Uncached: 1_000_000})
	assert.True(t, known)
	assert.Equal(t, int64(2), cost)
	assert.Equal(t, "b", again.from.Header.Get("X-A"))

	// Another place, or another model there: nothing is kept.
	for _, change := range []func(*Provider){
		func(p *Provider) { p.URL = "http://127.0.0.1:2" },
		func(p *Provider) { p.Models[0].Upstream = "y" },
		func(p *Provider) { p.Kind = AzureOpenAI{} },
	} {
		p := base()
		change(&p)
		require.NoError(t, set.Update([]Provider{p}))
		assert.NotSame(t, a.state, set.Offers("a")[0].state)
		require.NoError(t, set.Update([]Provider{base()}))
	}

	// Another credential: another account, which nobody has refused.
	a = set.Offers("a")[0]
	a.account.refuse(clock.now(), time.Minute, NewCredential("k"))
	require.Equal(t, whyAuth, a.Standing(clock.now()).Reason)
	p = base()
	p.Credentials = Static("other")
	require.NoError(t, set.Update([]Provider{p}))
	assert.True(t, set.Offers("a")[0].Standing(clock.now()).Ready)

	// What is wrong changes nothing.
	before := set.All()
	require.Error(t, set.Update([]Provider{base(), base()}))
	assert.Equal(t, before, set.All())
	assert.Len(t, set.All(), 2)
	require.NoError(t, set.Update(nil))
	assert.Empty(t, set.All())
	assert.Nil(t, set.Offers("a"))
}

// Two names for one model at one provider are one queue there.
func TestNamesOfOneModelShareItsState(t *testing.T) {
	set := newSet(t, Options{}, Provider{Name: "p", Kind: OpenAI{}, Models: []Model{{Name: "a", Upstream: "x"}, {Name: "b", Upstream: "x"}}})
	b := set.Offers("a")[0].Begin(1, 1)
	assert.Equal(t, 1, set.Offers("b")[0].Standing(time.Now()).InFlight)
	b.End()
}

// A request goes on by the Offer that it was begun with.
func TestUpdateLetsRequestsEnd(t *testing.T) {
	next := make(chan struct{})
	svc := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		assert.NoError(t, http.NewResponseController(w).Flush())
		<-next
		_, _ = io.WriteString(w, "data: 2\n\n")
	})
	set := newSet(t, Options{}, Provider{Name: "p", Kind: OpenAI{}, URL: svc.URL, Models: []Model{{Name: "ours"}}})
	o := set.Offers("ours")[0]
	b := o.Begin(1, 1)
	resp, err := o.RoundTripper(nil, Exchange{API: chat, Booking: b}).RoundTrip(newRequest(t, t.Context(), chat, `{"model":"ours"}`))
	require.NoError(t, err)
	require.NoError(t, set.Update(nil))
	require.NoError(t, set.Close())
	close(next)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "data: 1\n\ndata: 2\n\n", string(text))
	b.End()
	assert.Zero(t, o.Standing(time.Now()).InFlight)
}

func TestConfigErrors(t *testing.T) {
	ok := func() Provider { return Provider{Name: "p", Kind: OpenAI{}, Models: []Model{{Name: "m"}}} }
	for name, c := range map[string]struct {
		change func(*Provider)
		want   string
	}{
		"no name":            {func(p *Provider) { p.Name = "" }, `providers: provider 0: Name must be 1 to 63 letters`},
		"a bad name":         {func(p *Provider) { p.Name = "a b" }, `Name must be`},
		"no kind":            {func(p *Provider) { p.Kind = nil }, `provider "p": Kind is missing; give OpenAI{}`},
		"nothing":            {func(p *Provider) { p.Models = nil }, `Models is empty, and so is Paths`},
		"no URL":             {func(p *Provider) { p.Kind = AzureOpenAI{} }, `URL is missing`},
		"no host":            {func(p *Provider) { p.URL = "localhost:80" }, `URL must begin with https://`},
		"no URL at all":      {func(p *Provider) { p.URL = "http://a b" }, `URL is no URL`},
		"a password":         {func(p *Provider) { p.URL = "https://u:s3cret@x.test" }, `URL has a user's name or password`},
		"a fragment":         {func(p *Provider) { p.URL = "https://x.test/#a" }, `URL has a fragment`},
		"a query":            {func(p *Provider) { p.URL = "https://x.test/v1?key=s3cret" }, `URL has a query (?)`},
		"an empty query":     {func(p *Provider) { p.URL = "https://x.test/v1?" }, `URL has a query (?)`},
		"a line in a header": {func(p *Provider) { p.Header = http.Header{"X-A": {"b", "s3cret\r\nX-B: c"}} }, `Header X-A has a value with control characters`},
		"a header's name":    {func(p *Provider) { p.Header = http.Header{"s3cret b": {"c"}} }, `Header has a name that no header can have`},
		"no header's name":   {func(p *Provider) { p.Header = http.Header{"": {"c"}} }, `Header has a name that no header can have`},
		"above an API":       {func(p *Provider) { p.Paths = []string{"/v1/chat"} }, `is above a path that is routed by model`},
		"escaped twice":      {func(p *Provider) { p.Paths = []string{"/v1/%252e%252e/x"} }, `Paths must begin with "/v1/"`},
		"a model twice":      {func(p *Provider) { p.Models = append(p.Models, p.Models[0]) }, `Models[1].Name is given twice`},
		"a model's name":     {func(p *Provider) { p.Models[0].Name = "" }, `Models[0].Name must be`},
		"an upstream":        {func(p *Provider) { p.Models[0].Upstream = "a\nb" }, `Models[0].Upstream must be`},
		"a window":           {func(p *Provider) { p.Models[0].ContextWindow = -1 }, `Models[0].ContextWindow must be from 0`},
		"an output":          {func(p *Provider) { p.Models[0].MaxOutput = -1 }, `Models[0].MaxOutput must be from 0`},
		"a prior":            {func(p *Provider) { p.Models[0].Prior.ITL = -1 }, `Models[0].Prior has a negative duration`},
		"prices":             {func(p *Provider) { p.Models[0].Prices = &price.Prices{Input: -1} }, `Models[0].Prices can't be used`},
		"an API":             {func(p *Provider) { p.APIs = []prompt.API{77} }, `APIs has an API that doesn't exist`},
		"a model's API":      {func(p *Provider) { p.Models[0].APIs = []prompt.API{0} }, `Models[0].APIs has an API`},
		"concurrency":        {func(p *Provider) { p.MaxConcurrent = -1 }, `MaxConcurrent is negative`},
		"a secret header":    {func(p *Provider) { p.Header = http.Header{"x-api-key": {"k"}} }, `Header x-api-key holds a secret`},
		"a header":           {func(p *Provider) { p.Header = http.Header{"Host": {"k"}} }, `Header Host can't be set`},
		"a path":             {func(p *Provider) { p.Paths = []string{"files"} }, `Paths must begin with "/v1/"`},
		"a path that climbs": {func(p *Provider) { p.Paths = []string{"/v1/../x"} }, `Paths must begin with "/v1/"`},
		"an API's path":      {func(p *Provider) { p.Paths = []string{"/v1/chat/completions"} }, `is no path with state`},
		"a path twice":       {func(p *Provider) { p.Paths = []string{"/v1/files", "/v1/files/"} }, `is given twice`},
		"an empty secret":    {func(p *Provider) { p.Credentials = Static("") }, `Credentials can't be used: the credential is empty`},
		"a long secret":      {func(p *Provider) { p.Credentials = Static("a b") }, `characters that no header can have`},
		"no file":            {func(p *Provider) { p.Credentials = File("/nowhere/key") }, `Credentials can't be read`},
	} {
		t.Run(name, func(t *testing.T) {
			p := ok()
			c.change(&p)
			_, err := New([]Provider{p}, Options{})
			var e *ConfigError
			require.ErrorAs(t, err, &e)
			assert.Contains(t, err.Error(), c.want)
			assert.NotContains(t, err.Error(), "s3cret")
		})
	}
	p, q := ok(), ok()
	q.MaxConcurrent = -1
	_, err := New([]Provider{p, q}, Options{})
	require.ErrorContains(t, err, "Name is given twice; rename one")
	require.ErrorContains(t, err, "MaxConcurrent", "all that is wrong")
	p.Paths, q = []string{"/v1/files"}, ok()
	q.Name, q.Paths = "q", []string{"/v1/files"}
	_, err = New([]Provider{p, q}, Options{})
	require.ErrorContains(t, err, "is also that of provider p")
	_, err = New(nil, Options{CredentialTimeout: -1})
	require.ErrorContains(t, err, "Options.CredentialTimeout is negative")
}

// What a model costs and can do is looked up by the provider's name, then by that of its
// kind in public lists, then by what costs the same anywhere. What is said in the
// configuration counts more.
func TestPrices(t *testing.T) {
	table, err := price.New([]price.Entry{
		{Provider: "mine", Model: "x", Prices: price.Prices{Input: 1_000_000}},
		{
			Provider: "openai", Model: "x", Prices: price.Prices{Input: 2_000_000, Output: 8_000_000}, MaxInput: 1000, MaxOutput: 100,
			Supports: []string{"vision", "function_calling"}, Lacks: []string{"audio_input"},
		},
		{Provider: price.Any, Model: "*", Prices: price.Prices{Input: 3_000_000}},
		{Provider: "anthropic", Model: "silly", MaxInput: -5, MaxOutput: 1 << 60},
	}, nil)
	require.NoError(t, err)
	set := newSet(t, Options{Prices: table},
		Provider{Name: "mine", Kind: OpenAI{}, Models: []Model{{Name: "a", Upstream: "x"}}},
		Provider{Name: "yours", Kind: OpenAI{}, Models: []Model{{Name: "a", Upstream: "x"}, {
			Name: "b", Upstream: "x", ContextWindow: 7, MaxOutput: 8, Capabilities: Capabilities{Images: SupportNo},
			Prices: &price.Prices{Input: 5_000_000},
		}}},
		Provider{Name: "elsewhere", Kind: OpenAI{}, URL: "https://x.test", Models: []Model{{Name: "a", Upstream: "x"}}},
		Provider{Name: "anthropic-1", Kind: Anthropic{}, Models: []Model{{Name: "c", Upstream: "silly"}}})
	tokens := &price.Tokens{Uncached: 1_000_000}
	for i, want := range []int64{1_000_000, 2_000_000, 5_000_000, 3_000_000, 0} {
		cost, known := set.All()[i].Cost(tokens)
		assert.True(t, known)
		assert.Equal(t, want, cost, i)
	}
	listed, own := set.All()[1], set.All()[2]
	assert.Equal(t, 1000, listed.ContextWindow())
	assert.Equal(t, 100, listed.MaxOutput())
	assert.Equal(t, Capabilities{Images: SupportYes, Tools: SupportYes, Audio: SupportNo}, listed.model.Capabilities)
	assert.Equal(t, 7, own.ContextWindow())
	assert.Equal(t, 8, own.MaxOutput())
	assert.Equal(t, Capabilities{Images: SupportNo, Tools: SupportYes, Audio: SupportNo}, own.model.Capabilities)
	assert.Zero(t, set.Offers("c")[0].ContextWindow())
	assert.Zero(t, set.Offers("c")[0].MaxOutput())

	_, known := newSet(t, Options{}, Provider{Name: "p", Kind: OpenAI{}, Models: []Model{{Name: "a"}}}).All()[0].Cost(tokens)
	assert.False(t, known)
}

func TestReadingTakesNoMemory(t *testing.T) {
	clock := newClock()
	set := newSet(t, Options{Now: clock.now}, Provider{Name: "p", Kind: OpenAI{}, Models: []Model{{Name: "ours"}}, MaxConcurrent: 1})
	o := set.Offers("ours")[0]
	defer o.Begin(1, 1).End() // at its limit
	tokens := &price.Tokens{Uncached: 10}
	body := parse(t, `{"model":"ours","messages":[{"content":[{"type":"image_url"}]}]}`)
	now := clock.now()
	allocs := testing.AllocsPerRun(100, func() {
		for _, o := range set.Offers("ours") {
			if o.Standing(now).Ready {
				panic("it isn't")
			}
			o.Expect(1000, 100)
			o.Cost(tokens)
			o.Takes(prompt.Chat, body)
		}
		set.ForPath("/v1/files/x")
	})
	assert.Zero(t, allocs)
}

func TestKindsHaveNames(t *testing.T) {
	for _, k := range []Kind{OpenAI{}, Anthropic{}, AzureOpenAI{}, Gemini{}} {
		p := Provider{Name: "p", Kind: k, URL: "https://x.test", Models: []Model{{Name: "m"}}}
		o := newSet(t, Options{}, p).All()[0]
		assert.Equal(t, k.String(), o.Kind())
		assert.NotEmpty(t, o.Kind())
		assert.Equal(t, "x.test", o.URL().Host)
		o.URL().Host = "changed"
		assert.Equal(t, "x.test", o.URL().Host)
		assert.NotContains(t, o.ID(), " ")
	}
	for b, name := range map[Breaker]string{BreakerClosed: "closed", BreakerOpen: "open", BreakerHalfOpen: "half-open", 9: "unknown"} {
		assert.Equal(t, name, b.String())
	}
}
