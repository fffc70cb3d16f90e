package kvsteerotel

import (
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Attributes by the semantic conventions for generative AI (v0.1.0 of their own repository,
// where they are in development) and, of the last three, by the general ones.
const (
	keyOperation        = "gen_ai.operation.name"
	keyProvider         = "gen_ai.provider.name"
	keyRequestModel     = "gen_ai.request.model"
	keyResponseModel    = "gen_ai.response.model"
	keyTimeToFirstChunk = "gen_ai.response.time_to_first_chunk" // seconds
	keyInputTokens      = "gen_ai.usage.input_tokens"           //nolint:gosec // tokens of text
	keyCacheRead        = "gen_ai.usage.cache_read.input_tokens"
	keyCacheWrite       = "gen_ai.usage.cache_write.input_tokens"
	keyOutputTokens     = "gen_ai.usage.output_tokens" //nolint:gosec // tokens of text
	keyReasoning        = "gen_ai.usage.reasoning.output_tokens"
	keyServerAddress    = "server.address"
	keyServerPort       = "server.port"
	keyErrorType        = "error.type"
)

// Attributes of our own; times are in seconds.
const (
	keyDecision        = "kvsteer.decision"
	keyWorker          = "kvsteer.worker"
	keyInstance        = "kvsteer.instance"
	keyRank            = "kvsteer.rank"
	keyRule            = "kvsteer.rule"
	keyPolicy          = "kvsteer.policy"
	keyAttempt         = "kvsteer.attempt"
	keyTrust           = "kvsteer.trust"
	keyTrustReason     = "kvsteer.trust.reason"
	keyPrefillWorker   = "kvsteer.prefill_worker"
	keyPromptTokens    = "kvsteer.prompt.tokens" //nolint:gosec // tokens of text
	keyPromptSource    = "kvsteer.prompt.source"
	keyCachedPredicted = "kvsteer.cached_tokens.predicted"
	keyCachedReported  = "kvsteer.cached_tokens.reported"
	keyTTFTPredicted   = "kvsteer.ttft.predicted"
	keyTTFTObserved    = "kvsteer.ttft.observed"
	keyDecisionTime    = "kvsteer.decision.duration"
	keyWaited          = "kvsteer.waited"
	keyDegradations    = "kvsteer.degradations"
	keyMoved           = "kvsteer.moved"
)

// operation is gen_ai.operation.name.
func operation(api kvsteer.API) string {
	switch api {
	case prompt.Completions:
		return "text_completion"
	case prompt.Embeddings:
		return "embeddings"
	default: // chats in three dialects
		return "chat"
	}
}

// attempted says where an attempt goes, and why.
func attempted(d *kvsteer.Decision) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.Int(keyAttempt, d.Attempt), attribute.String(keyRule, d.Rule)}
	w := d.Winner()
	if w == nil {
		return out
	}
	out = append(out,
		attribute.String(keyWorker, w.Name), attribute.Int(keyRank, w.Rank),
		attribute.Int(keyCachedPredicted, w.CachedTokens), attribute.Float64(keyTTFTPredicted, w.PredictedTTFT.Seconds()),
		attribute.String(keyTrust, w.TrustState),
	)
	if w.PrefillOn != "" {
		out = append(out, attribute.String(keyPrefillWorker, w.PrefillOn))
	}
	return out
}

// failed says which attempt failed, and how.
func failed(d *kvsteer.Decision, failure string) []attribute.KeyValue {
	if failure == "" {
		failure = typeOther
	}
	out := []attribute.KeyValue{attribute.Int(keyAttempt, d.Attempt), attribute.String(keyErrorType, failure)}
	if w := d.Winner(); w != nil {
		out = append(out, attribute.String(keyWorker, w.Name))
	}
	return out
}

// decided says what the last attempt's decision was.
func decided(d *kvsteer.Decision) []attribute.KeyValue {
	out := append(attempted(d),
		attribute.Int64(keyDecision, int64(min(d.ID, 1<<63-1))),
		attribute.Int(keyPromptTokens, d.PromptTokens), attribute.String(keyPromptSource, d.TokenSource),
		attribute.Float64(keyDecisionTime, d.Took.Seconds()),
	)
	if d.Policy != "" {
		out = append(out, attribute.String(keyPolicy, d.Policy))
	}
	if d.Waited > 0 {
		out = append(out, attribute.Float64(keyWaited, d.Waited.Seconds()))
	}
	if len(d.Degradations) > 0 {
		out = append(out, attribute.StringSlice(keyDegradations, d.Degradations))
	}
	if w := d.Winner(); w != nil && w.TrustReason != "" {
		out = append(out, attribute.String(keyTrustReason, w.TrustReason))
	}
	return out
}

// served says who answered in the end, and what it reported.
func (t *Tracer) served(o *kvsteer.Outcome) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String(keyProvider, t.provider(o)), attribute.Int(keyCachedPredicted, o.CachedPredicted),
	}
	if o.Served.Worker != "" {
		out = append(out,
			attribute.String(keyWorker, o.Served.Worker), attribute.String(keyInstance, o.Served.Instance),
			attribute.Int(keyRank, o.Served.Rank), attribute.String(keyResponseModel, clip(o.Served.Model)))
		out = append(out, server(o.Served.URL)...)
	}
	if o.Moved {
		out = append(out, attribute.Bool(keyMoved, true))
	}
	if o.TTFT > 0 {
		out = append(out, attribute.Float64(keyTTFTObserved, o.TTFT.Seconds()))
	}
	u := &o.Usage
	if !u.Known { // absent is not zero
		return out
	}
	out = append(out, attribute.Int(keyInputTokens, u.Prompt()), attribute.Int(keyOutputTokens, u.Output))
	if u.CachedKnown {
		out = append(out, attribute.Int(keyCacheRead, u.CacheRead), attribute.Int(keyCachedReported, u.CacheRead))
	}
	if u.CacheWrite > 0 {
		out = append(out, attribute.Int(keyCacheWrite, u.CacheWrite))
	}
	if u.Reasoning > 0 {
		out = append(out, attribute.Int(keyReasoning, u.Reasoning))
	}
	return out
}

// server is the address of a worker, without what its URL may have besides.
func server(u *url.URL) []attribute.KeyValue {
	if u == nil {
		return nil
	}
	port := 80
	if u.Scheme == "https" {
		port = 443
	}
	if n, err := strconv.Atoi(u.Port()); err == nil {
		port = n
	}
	return []attribute.KeyValue{attribute.String(keyServerAddress, u.Hostname()), attribute.Int(keyServerPort, port)}
}

// clip bounds what a client chose, and makes it UTF-8.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}
