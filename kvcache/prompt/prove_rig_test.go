package prompt

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// toyIDs are the ids of a toy tokenizer, which local sources and engines of these
// tests share: three bytes of the canonical prompt a token.
func toyIDs(api API, o jsonscan.Object) []uint32 {
	b := bytesOf(api, o).Bytes
	var ids []uint32
	for i := 0; i < len(b); i += 3 {
		id := uint32(0)
		for _, c := range b[i:min(i+3, len(b))] {
			id = id<<8 | uint32(c)
		}
		ids = append(ids, id)
	}
	return ids
}

// toyLocal has files for the models in assets.
type toyLocal struct {
	mu     sync.Mutex
	assets map[string]string
	bent   bool // one id is another than the engine's
	deny   func(r *Request) bool
	calls  int
}

func (l *toyLocal) Kind() SourceKind { return SourceLocal }

func (l *toyLocal) Assets(model string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.assets[model]
}

func (l *toyLocal) Token(_ string, id uint32) (string, bool) {
	return "t" + strconv.Itoa(int(id)), true
}

func (l *toyLocal) set(model, assets string, bent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.assets[model], l.bent = assets, bent
}

func (l *toyLocal) Encode(_ context.Context, r *Request) (Encoding, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.assets[r.Model] == "" {
		return Encoding{}, ErrNotApplicable
	}
	if l.deny != nil && l.deny(r) {
		return Encoding{}, errMedia
	}
	ids := toyIDs(r.API, r.Object)
	if l.bent {
		ids[len(ids)-1]++
	}
	return exact(SourceLocal, ids, 0), nil
}

// toyEngine is an inference server without a socket.
type toyEngine struct {
	mu     sync.Mutex
	answer func(path string, o jsonscan.Object) (int, string)
	asked  map[string]int
	at     []time.Time
	now    int // calls in flight
	most   int
	hang   chan struct{} // calls wait until it is closed
}

func newToyEngine(answer func(path string, o jsonscan.Object) (int, string)) *toyEngine {
	return &toyEngine{answer: answer, asked: map[string]int{}}
}

func (e *toyEngine) total() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, k := range e.asked {
		n += k
	}
	return n
}

func (e *toyEngine) behave(answer func(path string, o jsonscan.Object) (int, string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *toyEngine) serve(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.asked[r.URL.Path]++
	e.at = append(e.at, time.Now())
	e.now++
	e.most = max(e.most, e.now)
	answer, hang := e.answer, e.hang
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.now--
		e.mu.Unlock()
	}()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	status, text := answer(r.URL.Path, o)
	if status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func list(ids []uint32) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.Itoa(int(id))
	}
	return "[" + strings.Join(words, ",") + "]"
}

// renders answers as an engine with all endpoints.
func renders(path string, o jsonscan.Object) (int, string) {
	base, ok := strings.CutSuffix(path, "/render")
	if !ok {
		return tokenizes(path, o)
	}
	api, _ := APIForPath(base)
	return http.StatusOK, `{"token_ids":` + list(toyIDs(api, o)) + `}`
}

// tokenizes answers as an engine with /tokenize only.
func tokenizes(path string, o jsonscan.Object) (int, string) {
	if path != tokenizePath {
		return http.StatusNotFound, `{"detail":"Not Found"}`
	}
	api := Completions
	if o.Value("messages").Exists() {
		api = Chat
	}
	return http.StatusOK, `{"tokens":` + list(toyIDs(api, o)) + `}`
}

func bare(string, jsonscan.Object) (int, string) {
	return http.StatusNotFound, `{"detail":"Not Found"}`
}

func down(string, jsonscan.Object) (int, string) { return 0, "" }

// fleetOf routes calls by host name.
type fleetOf map[string]*toyEngine

func (f fleetOf) RoundTrip(r *http.Request) (*http.Response, error) { return f[r.URL.Host].serve(r) }

// proofRig is a Prover with one model, "m", and engines by name.
type proofRig struct {
	*Prover

	t       *testing.T
	local   *toyLocal
	mu      sync.Mutex
	reports []*ProofReport
}

// prove runs a test on a clock of its own.
func prove(t *testing.T, o ProverOptions, engines fleetOf, test func(g *proofRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &proofRig{t: t, local: &toyLocal{assets: map[string]string{"m": "v1"}}}
		o.Client = &http.Client{Transport: engines}
		o.OnReport = func(r *ProofReport) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.reports = append(g.reports, r)
		}
		g.Prover = NewProver(g.local, o)
		test(g)
		require.NoError(t, g.Close())
		require.NoError(t, g.Close())
	})
}

func at(name string) Engine { return Engine{ID: name + "@1", BaseURL: "http://" + name} }

// reported returns the reports since the last call.
func (g *proofRig) reported() []*ProofReport {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.reports
	g.reports = nil
	return r
}

// ask encodes a request and returns how it is degraded, or the error.
func (g *proofRig) ask(api API, model string) ([]Degradation, error) {
	body := map[API]string{Chat: `{"messages":[{"role":"user","content":"hi"}]}`, Completions: `{"prompt":"hi"}`}[api]
	if body == "" {
		body = `{"input":"hi","messages":[{"role":"user","content":"hi"}]}`
	}
	r := &Request{API: api, Model: model, Body: []byte(body), Object: object(g.t, body)}
	enc, err := g.Encode(g.t.Context(), r)
	if err == nil {
		assert.Equal(g.t, SourceLocal, enc.Source)
		assert.Equal(g.t, toyIDs(api, r.Object), enc.Tokens)
	}
	return enc.Degraded, err
}

// served and refused say what becomes of requests for m.
func (g *proofRig) served() {
	g.t.Helper()
	degraded, err := g.ask(Chat, "m")
	require.NoError(g.t, err)
	require.Empty(g.t, degraded)
}

func (g *proofRig) refused(why ReasonError) {
	g.t.Helper()
	_, err := g.ask(Chat, "m")
	require.Equal(g.t, why, err)
}

func (g *proofRig) unsure(api API, reason string) {
	g.t.Helper()
	degraded, err := g.ask(api, "m")
	require.NoError(g.t, err)
	require.Equal(g.t, []Degradation{{SourceLocal, "not proven against the engine: " + reason}}, degraded)
}
