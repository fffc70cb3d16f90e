package prompt

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// engine is an inference server that answers by path, and remembers what it was
// asked.
type engine struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

type call struct {
	path   string
	header http.Header
	body   map[string]any
	raw    string
}

func newEngine(t testing.TB, answers map[string]http.HandlerFunc) *engine {
	t.Helper()
	e := &engine{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var raw strings.Builder
		var body map[string]any
		if err := json.NewDecoder(io.TeeReader(r.Body, &raw)).Decode(&body); err != nil {
			t.Errorf("engine got no JSON: %v", err)
		}
		e.mu.Lock()
		e.calls = append(e.calls, call{r.URL.Path, r.Header, body, raw.String()})
		e.mu.Unlock()
		h, ok := answers[r.URL.Path]
		if !ok {
			reply(http.StatusNotFound, `{"detail":"Not Found"}`)(w, r)
			return
		}
		h(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *engine) paths() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, c := range e.calls {
		all = append(all, c.path)
	}
	return all
}

func (e *engine) last() call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[len(e.calls)-1]
}

func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// newEncoder gives sockets time on a busy machine, unless the test says how much.
func newEncoder(t testing.TB, o Options) *Encoder {
	t.Helper()
	if o.Deadline == 0 {
		o.Deadline = time.Minute
	}
	e := NewEncoder(o)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func object(t testing.TB, body string) jsonscan.Object {
	t.Helper()
	o, err := jsonscan.Parse([]byte(body), 0)
	require.NoError(t, err)
	return o
}

func encode(t testing.TB, e *Encoder, api API, body, base string) Encoding {
	t.Helper()
	enc, err := e.Encode(context.Background(), &Request{
		API: api, Model: "served", Body: []byte(body), Engine: Engine{BaseURL: base},
	})
	require.NoError(t, err)
	return enc
}
