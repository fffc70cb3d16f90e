package kvsteer_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// What each error of a provider leads to: another one's answer, or the client's.
func TestWhatFallsBack(t *testing.T) {
	t.Parallel()
	for fault, elsewhere := range map[providertest.Fault]bool{
		providertest.RateLimited: true, providertest.QuotaExhausted: true, providertest.Overloaded: true, providertest.ServerError: true,
		providertest.BadGateway: true, providertest.ContextTooLong: true, providertest.UnknownModel: true, providertest.Hangup: true,
		providertest.ContentFiltered: false, providertest.BadKey: false, providertest.BadRequest: false,
	} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			o := newOutsiders(t)
			r := burstRig(t, o)
			free := r.busy(3)
			defer free()
			o.bedrock.Script(providertest.Answer{Fault: fault})
			status, text := r.ask(testModel, false)
			require.Len(t, o.bedrock.Requests(), 1)
			require.NotContains(t, text, "key-b")
			if elsewhere {
				require.Equal(t, http.StatusOK, status, text)
				require.Len(t, o.databricks.Requests(), 1)
			} else {
				require.GreaterOrEqual(t, status, http.StatusBadRequest)
				require.Empty(t, o.databricks.Requests(), "nobody else is asked")
			}
			if fault == providertest.BadKey {
				require.Equal(t, http.StatusBadGateway, status, "the credentials are the gateway's, not the client's")
			}
			o.idle(t)
		})
	}
}

// A provider that dies, wherever, gives no second answer and leaves nothing booked.
func TestProvidersDieAtEachStage(t *testing.T) {
	t.Parallel()
	const events = 8
	for at := 1; at <= events; at++ {
		o := newOutsiders(t)
		r := burstRig(t, o)
		free := r.busy(3)
		o.bedrock.Script(providertest.Answer{Text: "one two three four five", Frames: providertest.Frames{DieAt: at}})
		body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
		resp, err := http.Post(r.gateway.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		text := rest(resp)
		require.LessOrEqual(t, strings.Count(text, `"role":"assistant"`), 1, "one answer, at most: %s", text)
		require.LessOrEqual(t, strings.Count(text, "[DONE]"), 1)
		if len(o.databricks.Requests()) > 0 {
			require.Contains(t, text, "[DONE]", "who is asked instead answers whole")
		}
		free()
		r.idle()
		o.idle(t)
	}
}

// Many requests that one provider refuses do not overrun the next: it gets what it says it
// can take, and the others are told when to come back.
func TestAStormDoesNotStampede(t *testing.T) {
	t.Parallel()
	const senders, takes = 200, 10
	o := newOutsiders(t, func(p []providers.Provider) { p[1].MaxConcurrent = takes })
	for range senders {
		o.bedrock.Script(providertest.Answer{Fault: providertest.RateLimited, RetryAfter: time.Minute})
		o.databricks.Script(providertest.Answer{Text: "ok", Delay: 20 * time.Millisecond})
	}
	r := burstRig(t, o)
	free := r.busy(3)
	defer free()
	var group sync.WaitGroup
	statuses := make([]int, senders)
	for i := range senders {
		group.Go(func() { statuses[i], _ = r.ask(testModel, false) })
	}
	group.Wait()
	served, refused := 0, 0
	_, most := o.databricks.InFlight()
	for _, s := range statuses {
		switch s {
		case http.StatusOK:
			served++
		case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusBadGateway:
			refused++
		default:
			t.Errorf("status %d", s)
		}
	}
	require.Equal(t, senders, served+refused)
	require.Positive(t, served)
	require.LessOrEqual(t, most, takes, "at once")
	require.Less(t, len(o.bedrock.Requests()), senders/2, "it is left alone once it has said so")
	o.idle(t)
}

// Answers that are stored stay where they are.
func TestStoredResponsesOfProviders(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, func(p []providers.Provider) {
		p[0].APIs = []kvsteer.API{kvsteer.ChatCompletions, kvsteer.Responses}
	})
	r := burstRig(t, o)
	free := r.busy(3)
	post := func(body string) (int, string) {
		resp, err := http.Post(r.gateway.URL+"/v1/responses", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		return resp.StatusCode, rest(resp)
	}
	status, text := post(`{"model":"m","input":"hi"}`)
	require.Equal(t, http.StatusOK, status, text)
	require.Len(t, o.bedrock.Requests(), 1)
	free()
	_, id, _ := strings.Cut(text, `"id":"resp`)
	id, _, _ = strings.Cut(id, `"`)
	status, text = post(`{"model":"m","input":"and?","previous_response_id":"resp` + id + `"}`)
	require.Equal(t, http.StatusOK, status, text)
	require.Len(t, o.bedrock.Requests(), 2, "workers are free, and don't have it")
}

// Files go to the provider that keeps them, or nowhere.
func TestPathsThatAreKept(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, func(p []providers.Provider) { p[1].Paths = []string{"/v1/files"} })
	r := burstRig(t, o)
	require.Contains(t, r.get("/v1/files").body, `"data"`)
	require.Equal(t, "/v1/files", o.databricks.Requests()[0].Path)
	require.Contains(t, r.get("/v1/batches").body, "nobody is known to keep them")
	require.Empty(t, o.bedrock.Requests())
	o.idle(t)
}

// What a provider costs is charged and recorded as that provider's.
func TestCostOfProviders(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	written := &book{}
	r := burstRig(t, o, kvsteer.WithTenancy(kvsteer.TenancyOptions{Ledger: written}))
	free := r.busy(3)
	defer free()
	o.bedrock.Script(providertest.Answer{Text: "x", Usage: providertest.Usage{Input: 1000, Output: 100}})
	status, text := r.ask(testModel, false)
	require.Equal(t, http.StatusOK, status, text)
	last := r.observed.nextOutcome(t, 0)
	require.EqualValues(t, 3000+1500, last.Cost)
	var at []string
	for _, e := range written.take() {
		if e.State == ledger.Settled {
			at = append(at, e.Provider)
			require.Equal(t, last.Cost, e.Cost)
		}
	}
	require.Equal(t, []string{"bedrock"}, at)
}

// rest is what is left of an answer, however it ends.
func rest(resp *http.Response) string {
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}
