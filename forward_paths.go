package kvsteer

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// DefaultForward lets through the inference API of the engines: the paths of it that are
// known, below /v1/ and /v2/ and in front of them, and a few that neither change nor reveal
// anything. Engines serve their administration (adapters, weights, sleep, cache reset,
// profiling, tracing, shared memory) on the same port, below /v1/ and /v2/ too, so
// everything else stays here: a gateway that needs more of it has
// [TransportOptions.Forward]. What backends keep (/v1/files) is none of it: it goes to the
// provider that has it in its Paths, unless the gateway has a function of its own, which
// must then allow it.
func DefaultForward(r *http.Request) bool {
	p := strings.TrimSuffix(r.URL.Path, "/")
	if path.Clean(p) != p || !forwardable(p) {
		return false // what an engine makes of dots and double slashes is unknown
	}
	reads := r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodHead
	if rest, ok := strings.CutPrefix(p, "/v1/models/"); ok {
		return reads && rest != "" // names have slashes
	}
	if rest, ok := strings.CutPrefix(p, "/v1/responses/"); ok {
		_, of, more := strings.Cut(rest, "/")
		return !more || of == "cancel" || of == "input_items"
	}
	if rest, ok := strings.CutPrefix(p, "/v2/models/"); ok {
		return ofModel(rest, reads)
	}
	return inference(p)
}

// inference reports whether p is one of the paths at which engines are asked something.
func inference(p string) bool {
	switch p {
	case "/v1/chat/completions", "/v1/chat/completions/batch", "/v1/chat/completions/render", "/v1/chat/completions/derender",
		"/v1/completions", "/v1/completions/render", "/v1/completions/derender", "/v1/responses",
		"/v1/messages", "/v1/messages/count_tokens", "/v1/messages/render", "/v1/models",
		"/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/classify", "/v1/moderations",
		"/v1/tokenize", "/v1/detokenize",
		"/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations",
		"/v1/images/generations", "/v1/images/edits", "/v1/images/variations",
		"/v1/realtime", "/v1/realtime/sessions", "/v1/realtime/client_secrets", "/v1/realtime/transcription_sessions",
		"/v1/health/live", "/v1/health/ready",
		"/v2/embed", "/v2/rerank", "/v2/health/live", "/v2/health/ready",
		"/tokenize", "/detokenize", "/rerank", "/score", "/classify", "/pooling",
		"/version", "/ping", "/health":
		return true
	default:
		return false
	}
}

// ofModel reports whether rest, which follows /v2/models/, asks the model something, as
// KServe's protocol has it. Below the same path Triton has its tracing and its statistics.
func ofModel(rest string, reads bool) bool {
	parts := strings.Split(rest, "/")
	const version = 3 // NAME/versions/NUMBER
	if len(parts) >= version && parts[1] == "versions" {
		parts = slices.Delete(parts, 1, version)
	}
	const question = 2 // NAME/QUESTION
	switch {
	case len(parts) == 1:
		return reads && parts[0] != "" && parts[0] != "stats"
	case len(parts) != question || parts[0] == "":
		return false
	case parts[1] == "ready":
		return reads
	default:
		return parts[1] == "infer" || parts[1] == "generate" || parts[1] == "generate_stream"
	}
}
