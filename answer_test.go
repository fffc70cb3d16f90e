package kvsteer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
)

// byHand sends a request as a gateway would that has an HTTP client of its own, a few
// bytes of the answer at a time.
func (r *rig) byHand(req *kvsteer.Request, size int) (body string, sel *kvsteer.Selection) {
	r.t.Helper()
	sel, err := r.router.Select(r.t.Context(), req)
	require.NoError(r.t, err)
	resp := r.sendTo(sel.Target(), req.API.Path(), sel.BodyWithUsage())
	defer resp.Body.Close()
	a := sel.Answer(resp.StatusCode, resp.Header)
	var out bytes.Buffer
	buf := make([]byte, size)
	for {
		n, err := resp.Body.Read(buf)
		out.Write(a.Pass(buf[:n]))
		if err != nil {
			require.ErrorIs(r.t, err, io.EOF)
			out.Write(a.End())
			require.Empty(r.t, a.End(), "a second end does nothing")
			a.Break(errors.New("nor does a break after it"))
			return out.String(), sel
		}
	}
}

func (r *rig) sendTo(to kvsteer.Target, path string, body []byte) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, to.URL.String()+path, bytes.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	return resp
}

// An Answer is given what a Transport reads, and does what that does.
func TestAnswerDoesWhatATransportDoes(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		r := newRig(t, rigConfig{engines: 1})
		through := r.post("/v1/chat/completions", string(chatRequest("one two three", stream).Body))
		for _, size := range []int{1, 7, 32 << 10} {
			got, sel := r.byHand(chatRequest("one two three", stream), size)
			r.idle()
			o := r.observed.outcome(sel.Decision().ID)
			require.NoError(t, o.Err)
			require.True(t, o.Usage.Known)
			require.Positive(t, o.Usage.Prompt())
			if stream {
				require.Positive(t, o.TTFT, "the first token was seen")
				require.NotContains(t, got, `"usage":{`, "nobody asked for it")
				require.Equal(t, strings.Count(through.body, "data:"), strings.Count(got, "data:"))
			}
		}
	}
}

func TestAnswerEndsInErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	open := func() (*kvsteer.Selection, *kvsteer.Answer) {
		sel, err := r.router.Select(t.Context(), chatRequest("x", true))
		require.NoError(t, err)
		a := sel.Answer(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}})
		return sel, a
	}
	broke := errors.New("broke off")
	for _, err := range []error{broke, context.Canceled, nil} {
		sel, a := open()
		a.Pass([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"))
		a.Break(err)
		require.Equal(t, "data: late", string(a.Pass([]byte("data: late"))), "what comes after the end passes")
		require.Empty(t, a.End())
		o := r.observed.outcome(sel.Decision().ID)
		require.Error(t, o.Err)
		if err != nil {
			require.ErrorIs(t, o.Err, err)
		}
	}
	sel, err := r.router.Select(t.Context(), chatRequest("x", true))
	require.NoError(t, err)
	a := sel.Answer(http.StatusBadRequest, http.Header{"Content-Type": {"application/json"}})
	require.Equal(t, "{}", string(a.Pass([]byte("{}"))))
	a.End()
	require.ErrorContains(t, r.observed.outcome(sel.Decision().ID).Err, "Bad Request")
	r.idle()
}

// outcome is that of a decision.
func (h *recorder) outcome(id uint64) *kvsteer.Outcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.outcomes {
		if o.Decision.ID == id {
			return o
		}
	}
	return &kvsteer.Outcome{Err: errors.New("the request has not ended")}
}

// A proxy that went to an alternative: the booking follows it, and nothing is learned
// about the worker that did not answer.
func TestMovedFollowsTheProxy(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3})
	sel, err := r.router.Select(t.Context(), chatRequest("one two three four", true))
	require.NoError(t, err)
	first, second := sel.Target(), sel.Alternatives()[0]
	inFlight := func(name string) int { return r.fleet.Snapshot().Member(name).InFlight(0).Requests }
	require.Equal(t, 1, inFlight(first.Worker))

	sel.Moved(strings.ToUpper(first.URL.Host))
	require.Equal(t, first.Worker, sel.Target().Worker, "it was not")
	sel.Moved(second.URL.Host)
	require.Equal(t, second.Worker, sel.Target().Worker)
	require.Equal(t, testModel, sel.Target().Model)
	require.Zero(t, inFlight(first.Worker))
	require.Equal(t, 1, inFlight(second.Worker))

	a := sel.Answer(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}})
	// Far more cached than anybody foretold: an audit would count that.
	a.Pass([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":900,\"completion_tokens\":1," +
		"\"prompt_tokens_details\":{\"cached_tokens\":896}}}\n\ndata: [DONE]\n\n"))
	a.End()
	o := r.observed.outcome(sel.Decision().ID)
	require.NoError(t, o.Err)
	require.Equal(t, 896, o.Usage.CacheRead)
	r.idle()

	sel, err = r.router.Select(t.Context(), chatRequest("one two three four", true))
	require.NoError(t, err)
	sel.Moved("192.0.2.1:80")
	require.Error(t, r.observed.outcome(sel.Decision().ID).Err, "nobody knows where it is")
	r.idle()

	// What a stranger answers is passed on, and is nobody's success, failure or response.
	for range 5 {
		a = sel.Answer(http.StatusServiceUnavailable, http.Header{"Content-Type": {"application/json"}})
		require.Equal(t, "{}", string(a.Pass([]byte("{}"))))
		a.Break(errors.New("it broke off"))
	}
	require.True(t, r.fleet.Snapshot().Member(sel.Target().Worker).Healthy())
}

// The pool that the gateway says holds for what has no body, and for who has a response.
func TestPoolsHoldWithoutABody(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2, worker: func(i int, w *fleet.Worker) { w.Pool = []string{"a", "b"}[i] }})
	describe := func(_ *http.Request, q *kvsteer.Request) { q.Pool = "b" }
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway/version", http.NoBody)
	require.NoError(t, err)
	for range 4 {
		p, err := r.router.Place(&kvsteer.Forward{HTTP: req, Describe: describe})
		require.NoError(t, err)
		require.Equal(t, "w1", p.Target().Worker)
		p.End()
	}
	r.router.Responded("resp_1", r.fleet.Snapshot().Member("w0"))
	req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway/v1/responses/resp_1", http.NoBody)
	require.NoError(t, err)
	p, err := r.router.Place(&kvsteer.Forward{HTTP: req})
	require.NoError(t, err)
	require.Equal(t, "w0", p.Target().Worker)
	p.End()
	p, err = r.router.Place(&kvsteer.Forward{HTTP: req, Describe: describe})
	require.NoError(t, err)
	require.Equal(t, "w1", p.Target().Worker, "it will say that it has no such response")
	p.End()
}

func TestPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3})
	get := func(path string) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway"+path, http.NoBody)
		require.NoError(t, err)
		return req
	}
	seen := map[string]bool{}
	var placed []*kvsteer.Placement
	for range 3 {
		p, err := r.router.Place(&kvsteer.Forward{HTTP: get("/version")})
		require.NoError(t, err)
		seen[p.Target().Worker] = true
		placed = append(placed, p)
	}
	require.Len(t, seen, 3, "each goes to the least loaded")
	first := placed[0].Target().Worker
	require.NoError(t, placed[0].Next(errors.New("broke off")))
	require.NotEqual(t, first, placed[0].Target().Worker)
	for _, p := range placed {
		p.Answered(http.StatusOK)
		p.End()
		p.End()
		require.Equal(t, kvsteer.CodeUpstream, kvsteer.CodeOf(p.Next(errors.New("late"))), "it has ended")
	}
	r.idle()

	host := r.engine("w2").URL()[len("http://"):]
	p, err := r.router.Place(&kvsteer.Forward{HTTP: get("/version"), Among: []string{host}})
	require.NoError(t, err)
	require.Equal(t, "w2", p.Target().Worker)
	require.Equal(t, kvsteer.CodeUpstream, kvsteer.CodeOf(p.Next(errors.New("dead"))), "nobody else may")
	p.End()
	_, err = r.router.Place(&kvsteer.Forward{HTTP: get("/version"), Among: []string{"192.0.2.1:80"}})
	require.Equal(t, kvsteer.CodeNoCandidates, kvsteer.CodeOf(err))
	_, err = r.router.Place(&kvsteer.Forward{HTTP: get("/sleep")})
	require.Equal(t, kvsteer.CodeNotForwarded, kvsteer.CodeOf(err))
	r.idle()
}

func TestInternalHeader(t *testing.T) {
	t.Parallel()
	for name, internal := range map[string]bool{
		"x-kvsteer-anything": true, "X-KVSTEER-": true, "x-data-parallel-rank": true,
		"x_kvsteer_anything": true, "X-Kvsteer_A": true, "X_Data_Parallel-RANK": true, "X-Data-Parallel-Rank2": false,
		"x-kvsteer": false, "X-Session-Id": false, "": false,
	} {
		require.Equal(t, internal, kvsteer.InternalHeader(name), name)
	}
}
