package kvsteer

import (
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Clients of Anthropic's API ask how long a prompt is before they send it. Who serves that
// API is asked; where a provider of another one would serve the request, the router counts.

// HeaderTokenSource says on an answer to POST /v1/messages/count_tokens that the router
// counted, and how: as [Decision].TokenSource does. "bytes" is an estimate.
const HeaderTokenSource = "X-Kvsteer-Token-Source" //nolint:gosec // tokens of prompts

const pathCount = "/v1/messages/count_tokens"

// counts reports whether the request asks for a prompt's length.
func counts(req *http.Request) bool {
	return req.Method == http.MethodPost && strings.TrimSuffix(req.URL.Path, "/") == pathCount
}

// count answers how long the prompt of body is.
func (t *Transport) count(req *http.Request, model string, body []byte) (*http.Response, error) {
	if _, err := dialect.CountTokens(body); err != nil {
		return nil, badRequest(err, "the prompt can't be counted: %v", err) // it quotes nothing
	}
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		return nil, badRequest(nil, "the body is not a JSON object: %v", err)
	}
	enc, err := t.router.encoder.Encode(req.Context(), &prompt.Request{API: prompt.Messages, Model: model, Body: body, Object: o})
	if req.Context().Err() != nil {
		return nil, canceled(req.Context())
	}
	if err != nil {
		return nil, badRequest(err, "the prompt can't be read")
	}
	resp, err := answerJSON(req, struct {
		InputTokens int `json:"input_tokens"`
	}{enc.Count})
	if err != nil {
		return nil, err
	}
	resp.Header.Set(HeaderTokenSource, enc.Source.String())
	return resp, nil
}
