package kvsteer_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
)

// The engine counts the cached tokens of all prompts of a request, the index
// those of the first; and some requests are computed whole. Neither says that
// the index is wrong.
func TestRequestsThatProveNothingAreNotAudited(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"several prompts": `{"model":"m","prompt":["` + fleettest.Text(1, 600) + `","` + fleettest.Text(2, 600) + `"]}`,
		"prompt_logprobs": `{"model":"m","prompt_logprobs":1,"prompt":"` + fleettest.Text(1, 600) + `"}`,
		"echo":            `{"model":"m","echo":true,"logprobs":1,"prompt":"` + fleettest.Text(1, 600) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{engines: 1})
			r.waitTrust(kvcache.Exact)
			for range 9 { // enough to be suspected, too few for the silence of an engine that never got them
				s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Body: []byte(body)})
				require.NoError(t, err)
				s.Done(kvsteer.Usage{Uncached: 1, CacheRead: 100_000, Known: true, CachedKnown: true})
			}
			r.waitTrust(kvcache.Exact)
		})
	}
}

// The model that is decided about is the one that is sent.
func TestAModelThatOverridesIsSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	for body, want := range map[string]string{
		`{"model":"gpt-x", "n":1.0}`:              `{"model":"m", "n":1.0}`,
		`{"model":"m" }`:                          `{"model":"m" }`,
		`{"model":"\u006d"}`:                      `{"model":"\u006d"}`,
		`{"model":null,"a":1,"model":"x"}`:        `{"model":"m","a":1,"model":"m"}`,
		`{"messages":[]}`:                         `{"messages":[],"model":"m"}`,
		`{"model":7,"stream":true,"messages":[]}`: `{"model":"m","stream":true,"messages":[]}`,
	} {
		s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Model: testModel, Body: []byte(body)})
		require.NoError(t, err)
		require.Equal(t, want, string(s.Body()))
		s.Abort(nil)
	}
}

func TestTheAPIMustBeKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	for _, api := range []kvsteer.API{0, 99} {
		_, err := r.router.Select(t.Context(), &kvsteer.Request{API: api, Model: testModel, TokenIDs: []uint32{1}})
		require.Equal(t, kvsteer.CodeBadRequest, kvsteer.CodeOf(err))
	}
}

// almostHook has the right name and the wrong signature: it would never be called.
type almostHook struct{}

func (almostHook) OnDecision(kvsteer.Decision) {}

func TestAHookThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	f, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	defer f.Close()
	for _, h := range []any{almostHook{}, nil} {
		_, err = kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithHooks(h))
		require.ErrorContains(t, err, "no Hook interface")
	}
}

// Requests of every shape that an engine may take are routed, never refused.
func TestStrangePromptsAreRouted(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	for _, c := range []struct {
		api  kvsteer.API
		body string
	}{
		{kvsteer.ChatCompletions, `{"model":"m"}`},
		{kvsteer.ChatCompletions, `{"model":"m","messages":null}`},
		{kvsteer.ChatCompletions, `{"model":"m","messages":"x"}`},
		{kvsteer.ChatCompletions, `{"model":"m","messages":[7,null,{"content":[{"type":"new_kind","x":[]}]}]}`},
		{kvsteer.Completions, `{"model":"m","prompt":null,"prompt_embeds":"AAAA"}`},
		{kvsteer.Completions, `{"model":"m","prompt":[[1,2],[3]]}`},
		{kvsteer.Completions, `{"model":"m","prompt":[-1,"a",{}]}`},
		{kvsteer.Completions, `{"model":"m","prompt":[99999999999999999999]}`},
		{kvsteer.Embeddings, `{"model":"m","input":["a","b"]}`},
		{kvsteer.Embeddings, `{"model":"m","input":[[1,2],[3,4]]}`},
		{kvsteer.Embeddings, `{"model":"m","messages":[{"role":"user","content":"x"}]}`},
		{kvsteer.Responses, `{"model":"m","previous_response_id":"r"}`},
		{kvsteer.Responses, `{"model":"m","input":[{"type":"unheard_of"}]}`},
		{kvsteer.Messages, `{"model":"m","system":[{"type":"text","text":"s"}],"messages":[]}`},
	} {
		s, err := r.router.Select(t.Context(), &kvsteer.Request{API: c.api, Body: []byte(c.body)})
		require.NoError(t, err, c.body)
		s.Done(kvsteer.Usage{})
	}
	r.idle()
}

func TestWhatNextReports(t *testing.T) {
	t.Parallel()
	p := &picky{dropped: map[string]bool{}}
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{kvsteer.WithPolicy(p)}})
	s, err := r.router.Select(t.Context(), chatRequest("hello", false))
	require.NoError(t, err)
	p.drop("w0")
	p.drop("w1")
	cause := errors.New("broken")
	var e *kvsteer.Error
	require.ErrorAs(t, s.Next(t.Context(), cause), &e)
	require.Equal(t, kvsteer.CodeUpstream, e.Code)
	require.Equal(t, "picky", e.Rule, "who left nobody")
	require.ErrorIs(t, e, cause)
	require.ErrorAs(t, s.Next(t.Context(), cause), &e, "and again, without harm")
	s.Abort(cause)
	require.ErrorAs(t, s.Next(t.Context(), cause), &e)
	require.Contains(t, e.Message, "ended")
	r.idle()
}

// Everything goes on while workers leave and the Router closes.
func TestSelectsDuringCloseAndRemoval(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3})
	stop := make(chan struct{})
	ended := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { ended <- struct{}{} }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, err := r.router.Select(t.Context(), chatRequest("hello", false))
				if err != nil {
					continue
				}
				s.FirstToken()
				_ = s.Next(t.Context(), nil)
				s.Done(kvsteer.Usage{CachedKnown: true})
			}
		}()
	}
	require.NoError(t, r.engines[0].Restart())
	require.NoError(t, r.engines[1].Kill())
	s, err := r.router.Select(t.Context(), chatRequest("left over", false))
	require.NoError(t, err)
	require.NoError(t, r.router.Close())
	close(stop)
	for range 4 {
		<-ended
	}
	_ = s.Next(t.Context(), nil)
	s.FirstToken()
	s.Done(kvsteer.Usage{CachedKnown: true})
	r.idle()
}

func TestAWorkerThatLeavesMidStreamFinishesIt(t *testing.T) {
	t.Parallel()
	pause := make(chan struct{})
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		sseEvents(`{"choices":[{"delta":{"content":"a"}}]}`)(w, q)
		<-pause
		sseEvents(`[DONE]`)(w, q)
	})})
	resp, err := r.transport.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hi", true)))
	require.NoError(t, err)
	require.NoError(t, r.fleet.Drain("s0", true))
	_, err = r.router.Select(t.Context(), chatRequest("another", false))
	require.Equal(t, kvsteer.CodeNoCandidates, kvsteer.CodeOf(err))
	close(pause)
	buf := make([]byte, 4096)
	for err = nil; err == nil; {
		_, err = resp.Body.Read(buf)
	}
	require.NoError(t, resp.Body.Close())
	require.NoError(t, r.observed.nextOutcome(t, 0).Err)
	r.idle()
}

// A request that nobody waits for any more is not routed, let alone booked.
func TestACancelledSelectBooksNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	r.engines[0].Faults().HangAdmin(true)
	defer r.engines[0].Faults().Clear()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	s, err := r.router.Select(ctx, chatRequest("hello", false))
	require.Nil(t, s)
	require.Equal(t, kvsteer.CodeCanceled, kvsteer.CodeOf(err))
	require.Zero(t, r.router.InFlight())
	r.idle()
}
