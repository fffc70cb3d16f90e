package fleettest

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Paths of the API.
const (
	pathChat        = "/v1/chat/completions"
	pathCompletions = "/v1/completions"
	pathMessages    = "/v1/messages"
	pathCount       = "/v1/messages/count_tokens"
	pathResponses   = "/v1/responses"
	pathEmbeddings  = "/v1/embeddings"
)

// handler routes the life's requests.
func (l *life) handler() http.Handler {
	cfg := &l.engine.cfg
	mux := http.NewServeMux()
	for path, f := range map[string]format{
		pathChat:        chatFormat{},
		pathCompletions: textFormat{},
		pathMessages:    messagesFormat{},
		pathResponses:   responsesFormat{},
		pathEmbeddings:  embeddingFormat{},
	} {
		mux.HandleFunc("POST "+path, l.api(f))
	}
	admin := func(pattern string, on bool, h http.HandlerFunc) {
		if on {
			mux.HandleFunc(pattern, l.admin(h))
		}
	}
	dev := !cfg.NoDevMode
	admin("POST "+pathCount, true, l.count)
	for _, path := range []string{pathChat, pathCompletions, pathMessages, pathResponses} {
		admin("POST "+path+"/render", cfg.Render, l.render)
	}
	trtllm := cfg.Dialect == TensorRTLLM
	admin("POST /tokenize", !cfg.NoTokenize && !trtllm, l.tokenize)
	admin("POST "+pathEvents, trtllm, l.takeEvents)
	admin("GET /prometheus/metrics", trtllm, l.metrics)
	admin("GET /v1/models", true, l.models)
	admin("GET /health", true, l.health)
	admin("GET /ping", true, l.health)
	admin("GET /version", true, l.version)
	admin("GET /metrics", !trtllm, l.metrics)
	admin("GET /metrics", trtllm, l.iterations)
	admin("GET /load", true, l.load)
	admin("GET /kv_event_sources", cfg.Dialect == VLLM, l.eventSources)
	admin("GET /server_info", dev, l.serverInfo)
	admin("GET /get_server_info", dev && cfg.Dialect == SGLang, l.serverInfo)
	admin("POST /reset_prefix_cache", dev && cfg.Dialect == VLLM, l.reset)
	admin("POST /flush_cache", cfg.Dialect == SGLang, l.reset)
	admin("POST /sleep", dev && !trtllm, l.sleep)
	admin("POST /wake_up", dev && !trtllm, l.sleep)
	admin("GET /is_sleeping", dev && !trtllm, l.isSleeping)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.enter() {
			panic(http.ErrAbortHandler)
		}
		defer l.wg.Done()
		if _, pattern := mux.Handler(r); pattern == "" {
			writeJSON(w, http.StatusNotFound, object{"detail": "Not Found"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// admin wraps a handler that is no part of the API proper.
func (l *life) admin(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := l.engine.faults.waitAdmin(r.Context()); err != nil {
			panic(http.ErrAbortHandler)
		}
		if err := l.authorised(r); err != nil {
			l.refuse(w, r.URL.Path, err)
			return
		}
		h(w, r)
	}
}

// api wraps the generation of answers in one format: read, record, fail if told
// to, then generate.
func (l *life) api(f format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := l.engine
		e.rec.begin()
		defer e.rec.end()
		raw, err := l.read(w, r)
		if err != nil {
			l.refuse(w, r.URL.Path, err)
			return
		}
		rec := e.rec.add(r, raw)
		status := &statusWriter{ResponseWriter: w}
		defer func() { e.rec.update(func() { rec.Status = status.status }) }()
		if fail, ok := e.faults.nextFailure(); ok {
			if fail.retryAfter > 0 {
				seconds := int(math.Ceil(fail.retryAfter.Seconds()))
				w.Header().Set("Retry-After", strconv.Itoa(seconds))
			}
			l.refuse(status, r.URL.Path, &apiError{status: fail.status, kind: "InternalServerError", text: "injected fault"})
			return
		}
		if err := e.faults.waitHang(r.Context(), HangBeforeHeaders); err != nil {
			panic(http.ErrAbortHandler)
		}
		if err := l.answer(status, r, f, raw, rec); err != nil {
			l.refuse(status, r.URL.Path, err)
		}
	}
}

// read returns the whole body.
func (l *life) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := l.authorised(r); err != nil {
		return nil, err
	}
	if err := l.isJSON(r); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, l.engine.cfg.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &apiError{status: http.StatusRequestEntityTooLarge, kind: "BadRequestError", text: "the request body is too large"}
	case err != nil:
		return nil, badRequest("the request body could not be read")
	}
	return raw, nil
}

// authorised checks the bearer token of what an engine guards.
func (l *life) authorised(r *http.Request) error {
	key := l.engine.cfg.APIKey
	if key == "" || !strings.HasPrefix(r.URL.Path, "/v1/") || r.Header.Get("Authorization") == "Bearer "+key {
		return nil
	}
	return &apiError{status: http.StatusUnauthorized, kind: "Unauthorized", text: "Unauthorized"}
}

// isJSON refuses what vLLM refuses: a body that does not say that it is JSON, or
// says so with a space before the semicolon.
func (l *life) isJSON(r *http.Request) error {
	kind, _, _ := strings.Cut(strings.ToLower(r.Header.Get("Content-Type")), ";")
	if l.engine.cfg.Dialect != VLLM || kind == "application/json" {
		return nil
	}
	return &apiError{
		status: http.StatusBadRequest, kind: "Bad Request",
		text: "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
	}
}

// refuse answers with an error in the shape of the engine and the API.
func (l *life) refuse(w http.ResponseWriter, path string, err error) {
	var refusal *apiError
	if !errors.As(err, &refusal) {
		refusal = &apiError{status: http.StatusInternalServerError, kind: "InternalServerError", text: err.Error()}
	}
	var param any
	if refusal.param != "" {
		param = refusal.param
	}
	detail := object{"message": refusal.text, "type": refusal.kind, "param": param, "code": refusal.status}
	var answer object
	switch {
	case strings.HasPrefix(path, pathMessages):
		kind := "invalid_request_error"
		switch {
		case refusal.status == http.StatusNotFound:
			kind = "not_found_error"
		case refusal.status >= http.StatusInternalServerError:
			kind = "api_error"
		}
		answer = object{"type": "error", "error": object{"type": kind, "message": refusal.text}}
	case l.engine.cfg.Dialect == SGLang:
		detail["object"] = "error"
		answer = detail
	default:
		answer = object{"error": detail}
	}
	writeJSON(w, refusal.status, answer)
}

// writeJSON sends a value; if the client has gone there is nobody to tell.
func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"error":{"message":"unencodable answer"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the Flusher.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// requestID returns the id of a request: the client's, or a new one.
func (l *life) requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-ID"); id != "" {
		return clip(id)
	}
	l.mu.Lock()
	l.requests++
	n := l.requests
	l.mu.Unlock()
	return digest(binary.LittleEndian.AppendUint64([]byte(l.engine.cfg.Name), n)) +
		strconv.FormatInt(l.started.UnixNano()%int64(time.Hour), 16)
}

// digest names bytes.
func digest(b []byte) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, xxhash.Sum64(b)))
}

// blockSeed is what a process's block hashes start from: another one for every
// engine, rank and life.
func blockSeed(cfg *Config, rank, life int) uint64 {
	b := binary.LittleEndian.AppendUint64([]byte(cfg.Name), cfg.Seed)
	return xxhash.Sum64(append(b, byte(rank), byte(life)))
}
