package kvsteer_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// privateStays is burstPolicy, but what is tagged goes to no provider.
func privateStays(t *testing.T, tag string) *policy.Set {
	t.Helper()
	return load(t, strings.Replace(burstPolicy, "      select:\n",
		"      - {name: private, if: {tag: "+tag+"}, drop: {backend: {type: Provider}}}\n      select:\n", 1))
}

// byKey gives the tag "private" by the header of names.
func byKey(h *http.Request, q *kvsteer.Request) {
	state := policy.TagAbsent
	if h.Header.Get("X-Test-Key") == "private" {
		state = policy.TagPresent
	}
	q.Tags = []policy.Tag{{Name: "private", State: state}}
}

// keeps makes the first provider one that stores responses, the second one that keeps files.
func keeps(p []providers.Provider) {
	p[0].APIs = []kvsteer.API{kvsteer.ChatCompletions, kvsteer.Responses}
	p[1].Paths = []string{"/v1/files", "/v1/batches"}
}

// stored has a response made at the first provider, while workers are busy.
func (r *rig) stored(key string) (id string) {
	r.t.Helper()
	free := r.busy(3)
	defer free()
	a := r.as(key, "/v1/responses", `{"model":"m","input":"hi"}`)
	require.Equal(r.t, http.StatusOK, a.status, a.body)
	_, after, found := strings.Cut(a.body, `"id":"resp`)
	require.True(r.t, found, a.body)
	id, _, _ = strings.Cut(after, `"`)
	return "resp" + id
}

// reached is how many requests the providers have had.
func (o *outsiders) reached() int { return len(o.bedrock.Requests()) + len(o.databricks.Requests()) }

// To a provider of a model go only requests that keep nothing, and read nothing that is
// kept for the account.
func TestForwardsThatNoProviderIsSent(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o)
	for _, c := range [][2]string{
		{http.MethodGet, "/v1/chat/completions"},
		{http.MethodGet, "/v2/v1/files"},
		{http.MethodDelete, "/v2/v1/files/file-1"},
		{http.MethodPost, "/v2/v1/batches"},
		{http.MethodPost, "/v1/v1/files"},
		{http.MethodGet, "/v1/files"},
		{http.MethodGet, "/v1/responses/resp_other"},
		{http.MethodGet, "/v2/v1/responses/resp_other"},
		{http.MethodGet, "/v1/responses//resp_other"},
		{http.MethodPost, "/v1/responses/resp_other/cancel"},
		{http.MethodPost, "/v1/realtime/sessions"},
		{http.MethodDelete, "/v1/models/only-outside"},
		{http.MethodGet, "/v1/moderations"},
		{http.MethodPost, "/v2/v1/moderations"},
		{http.MethodPost, "/v1/images/edits"},
		{http.MethodPost, "/tokenize"},
	} {
		a := r.send("", c[0], c[1], `{"model":"only-outside"}`)
		require.GreaterOrEqual(t, a.status, http.StatusBadRequest, "%v", c)
		require.Zero(t, o.reached(), "%v %s", c, a.body)
	}
	a := r.post("/v1/audio/speech", `{"model":"only-outside","input":"x"}`)
	require.Equal(t, 1, o.reached(), a.body)
	require.Equal(t, "/v1/audio/speech", o.databricks.Last().Path)
	o.idle(t)
}

// With limits in force nothing goes out whose cost isn't known.
func TestForwardsThatWouldBeFree(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o, kvsteer.WithTenancy(kvsteer.TenancyOptions{Limits: share{}}))
	a := r.post("/v1/images/generations", `{"model":"only-outside","prompt":"x"}`)
	require.Equal(t, http.StatusNotFound, a.status)
	require.Contains(t, a.body, "while limits are in force")
	require.Zero(t, o.reached())
	r.post("/v1/moderations", `{"model":"only-outside","input":"x"}`)
	require.Equal(t, 1, o.reached())
}

// Whoever has a stored response is asked for it only as far as the policy lets it.
func TestPoliciesHoldForStoredResponses(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, keeps)
	r := newScripted(t, rigConfig{
		options: []kvsteer.Option{
			kvsteer.WithPolicy(privateStays(t, "private")), kvsteer.WithProviders(o.set), kvsteer.WithTags("private"),
		},
		transport: kvsteer.TransportOptions{Describe: byKey},
	}, worker{serve: prompts(whole)})
	id := r.stored("")
	before := o.reached()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		a := r.send("private", method, "/v1/responses/"+id+"/cancel", `{"note":"secret"}`)
		require.Equal(t, http.StatusForbidden, a.status, a.body)
	}
	require.Equal(t, before, o.reached())
	require.Equal(t, "/v1/responses", o.bedrock.Last().Path)
	r.send("", http.MethodGet, "/v1/responses/"+id, "")
	require.Equal(t, "/v1/responses/"+id, o.bedrock.Last().Path)

	for _, key := range []string{"private", ""} { // and for what is kept by its path
		before = o.reached()
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			a := r.send(key, method, "/v1/files", `{}`)
			require.Equal(t, key == "private", a.status == http.StatusForbidden, a.body)
		}
		require.Equal(t, key == "", o.reached() == before+2)
	}
	o.idle(t)
}

// A worker that has a response is no exception.
func TestPoliciesHoldForStoredResponsesOfWorkers(t *testing.T) {
	t.Parallel()
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	require.NoError(t, err)
	var asked [2]atomic.Int32
	stays := strings.ReplaceAll(piiStays, "w0", "s0")
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithPolicy(load(t, stays)), kvsteer.WithClassifiers(classifiers(t, scanner)),
	}}, stores("s0", &asked[0]), stores("s1", &asked[1]))
	var id string
	for range 50 {
		a := r.post("/v1/responses", `{"model":"m","input":"x"}`)
		require.Equal(t, http.StatusOK, a.status)
		if _, after, found := strings.Cut(a.body, `"id":"resp_s0`); found {
			id, _, _ = strings.Cut(after, `"`)
			break
		}
	}
	require.NotEmpty(t, id, "never chosen")
	id = "resp_s0" + id
	before := asked[0].Load()
	a := r.post("/v1/responses/"+id+"/cancel", `{"note":"charge 4111 1111 1111 1111"}`)
	require.Equal(t, http.StatusForbidden, a.status, a.body)
	require.Equal(t, before, asked[0].Load())
	require.Equal(t, http.StatusOK, r.get("/v1/responses/"+id).status)
	require.Equal(t, before+1, asked[0].Load())
}

// What classifiers look for in texts isn't in a request without one.
func TestRequestsThatSayNothingHoldNothing(t *testing.T) {
	t.Parallel()
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	require.NoError(t, err)
	o := newOutsiders(t, keeps)
	r := burstRig(t, o, kvsteer.WithPolicy(privateStays(t, "pii-detected")), kvsteer.WithClassifiers(classifiers(t, scanner)))
	r.get("/v1/files")
	require.Equal(t, 1, o.reached())
	require.Equal(t, http.StatusForbidden, r.post("/v1/files", `{"a":"b"}`).status, "it may hold anything")
	require.Equal(t, 1, o.reached())

	// Without a policy that lets requests go there none does.
	r = newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithProviders(o.set)}}, worker{serve: prompts(whole)})
	require.Equal(t, http.StatusForbidden, r.get("/v1/files").status)
	require.Equal(t, 1, o.reached())
}

// A function of the gateway's own is asked about what providers keep, too.
func TestForwardIsAskedAboutWhatIsKept(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, keeps)
	r := newScripted(t, rigConfig{
		options: []kvsteer.Option{kvsteer.WithPolicy(load(t, burstPolicy)), kvsteer.WithProviders(o.set)},
		transport: kvsteer.TransportOptions{Forward: func(h *http.Request) bool {
			return h.Method == http.MethodGet
		}},
	}, worker{serve: prompts(whole)})
	a := r.post("/v1/files", `{}`)
	require.Equal(t, http.StatusNotFound, a.status)
	require.Contains(t, a.body, "the gateway's Forward")
	require.Zero(t, o.reached())
	r.get("/v1/files")
	require.Equal(t, 1, o.reached())
}

// Nobody else is asked for a response whose provider cools down, or is gone.
func TestStoredResponsesWaitForTheirProvider(t *testing.T) {
	t.Parallel()
	var list []providers.Provider
	o := newOutsiders(t, keeps, func(p []providers.Provider) {
		p[0].Models = append(p[0].Models, providers.Model{Name: "other"})
		list = p
	})
	r := burstRig(t, o)
	id := r.stored("")
	goOn := `{"model":"m","input":"more","previous_response_id":"` + id + `"}`
	require.Equal(t, http.StatusOK, r.post("/v1/responses", goOn).status)
	require.Equal(t, "up-b", o.bedrock.Last().Model, "though the worker is idle")
	require.Equal(t, http.StatusOK, r.post("/v1/responses", strings.Replace(goOn, `"m"`, `"other"`, 1)).status)
	require.Equal(t, "other", o.bedrock.Last().Model, "the account has it")

	list[0].Labels = map[string]string{"new": "label"}
	require.NoError(t, o.set.Update(list))
	require.Equal(t, http.StatusOK, r.post("/v1/responses", goOn).status)
	before := len(o.bedrock.Requests())
	r.get("/v1/responses/" + id)
	require.Len(t, o.bedrock.Requests(), before+1, "the offer is another, the provider the same")

	free := r.busy(3)
	o.bedrock.Script(providertest.Answer{Fault: providertest.RateLimited, RetryAfter: time.Minute})
	status, text := r.ask(testModel, false)
	require.Equal(t, http.StatusOK, status, text)
	free()
	before = o.reached()
	a := r.get("/v1/responses/" + id)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	a = r.post("/v1/responses", goOn)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.NotEmpty(t, a.header.Get("Retry-After"))

	require.NoError(t, o.set.Update(list[1:]))
	a = r.get("/v1/responses/" + id)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	a = r.post("/v1/responses/"+id+"/cancel", `{}`)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	a = r.post("/v1/responses", goOn)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.Contains(t, a.body, "the previous response")
	require.Equal(t, before, o.reached())
	o.idle(t)
}

// A response that was translated is kept by nobody.
func TestTranslatedResponsesAreNotKept(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o)
	a := r.post("/v1/responses", `{"model":"only-outside","input":"hi"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	_, after, _ := strings.Cut(a.body, `"id":"`)
	id, _, _ := strings.Cut(after, `"`)
	require.NotEmpty(t, id)
	before := o.reached()
	require.Equal(t, http.StatusOK, r.get("/v1/responses/"+id).status, "it is asked of a worker, as what nobody knows")
	a = r.post("/v1/responses", `{"model":"only-outside","input":"hi","previous_response_id":"`+id+`"}`)
	require.Equal(t, http.StatusBadRequest, a.status, a.body)
	require.Equal(t, before, o.reached())
}

// A keeper that stops taking requests between one look and the next gets none.
func TestKeepersThatStopBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	for look := range int32(4) {
		o := newOutsiders(t, keeps)
		keeper := o.set.ForPath("/v1/files")
		var looks atomic.Int32
		looks.Store(-1 << 20)
		now := func() time.Time {
			if looks.Add(1) == look { // meanwhile another request is refused
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.test/v1/files", nil)
				if err == nil {
					resp, err := keeper.RoundTripper(refuses{}, providers.Exchange{}).RoundTrip(req)
					if err == nil {
						_ = resp.Body.Close()
					}
				}
			}
			return time.Now()
		}
		r := burstRig(t, o, kvsteer.WithPolicy(privateStays(t, "private")), kvsteer.WithTags("private"), kvsteer.WithClock(now))
		looks.Store(-1)
		a := r.post("/v1/files", `{"x":"secret"}`)
		require.GreaterOrEqual(t, a.status, http.StatusBadRequest, "look %d: %s", look, a.body)
		require.Zero(t, o.reached(), "look %d: %s", look, a.body)
	}
}

type refuses struct{}

func (refuses) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}, Body: http.NoBody, Request: q}, nil
}

// unreachable can't be connected to at one host.
type unreachableHost struct {
	http.RoundTripper

	host string
}

func (u unreachableHost) RoundTrip(q *http.Request) (*http.Response, error) {
	if strings.Contains(u.host, q.URL.Host) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
	return u.RoundTripper.RoundTrip(q)
}

// The ledger names who has served a forward, not who was tried first.
func TestTheLedgerNamesWhoServedAForward(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, func(p []providers.Provider) {
		p[0].Models, p[1].Models = []providers.Model{{Name: "both"}}, []providers.Model{{Name: "both"}}
	})
	written := &book{}
	r := newScripted(t, rigConfig{
		options: []kvsteer.Option{
			kvsteer.WithPolicy(load(t, burstPolicy)), kvsteer.WithProviders(o.set),
			kvsteer.WithTenancy(kvsteer.TenancyOptions{Ledger: written}),
		},
		transport: kvsteer.TransportOptions{Base: unreachableHost{http.DefaultTransport, o.bedrock.URL()}},
	}, worker{serve: prompts(whole)})
	r.post("/v1/moderations", `{"model":"both","input":"x"}`)
	require.Len(t, o.databricks.Requests(), 1)
	var all []ledger.Record
	require.Eventually(t, func() bool {
		all = append(all, written.take()...)
		return len(all) >= 2
	}, wait, time.Millisecond)
	last := all[len(all)-1]
	require.Equal(t, ledger.Settled, last.State)
	require.Equal(t, "databricks", last.Worker)
	require.Equal(t, "databricks", last.Provider)
}

// A form can't be given the provider's name for the model.
func TestFormsThatCantBeRenamed(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, func(p []providers.Provider) { p[1].Models[1].Upstream = "theirs" })
	r := burstRig(t, o)
	const form = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nonly-outside\r\n--x--\r\n"
	resp, err := http.Post(r.gateway.URL+"/v1/audio/transcriptions", "multipart/form-data; boundary=x", strings.NewReader(form))
	require.NoError(t, err)
	text := rest(resp)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, text)
	require.Contains(t, text, "only in JSON")
	require.Zero(t, o.reached())
	resp, err = http.Post(r.gateway.URL+"/v1/images/generations", "", strings.NewReader(`{"model":"only-outside"}`))
	require.NoError(t, err)
	rest(resp)
	require.JSONEq(t, `{"model":"theirs"}`, string(o.databricks.Last().Body))
	o.idle(t)
}
