// Package fleettest is a fake inference engine: an HTTP server that looks like
// vLLM, SGLang or TensorRT-LLM to a router, gateway or test, without a GPU and without a
// model.
//
// What is real about it is what a cache-aware router depends on: prompts become
// token ids; a paged prefix cache with least-recently-used eviction decides how
// many of them are reused; continuous batching with chunked prefill decides when
// tokens appear; every change of the cache is published as the engines publish
// it; usage, /metrics, /tokenize, /v1/models and errors have the engines'
// shapes. What is made up is the text.
//
// # Use
//
//	e := fleettest.New(t, fleettest.Config{Name: "a", Speed: 100, Hub: hub})
//	resp, err := http.Post(e.URL()+"/v1/chat/completions", "application/json", body)
//	e.Faults().LoseEvents(1)
//	e.Restart()
//
// New closes the engine at the end of a test; programs use Start and Close. All
// durations are modelled and divided by Config.Speed. The defaults resemble a 27B
// model on one L40S with a cache of 12,288 blocks of 16 tokens, a step budget of
// 2,048 tokens and a batch of 256.
//
// # API
//
// POST /v1/chat/completions, /v1/completions, /v1/messages, /v1/responses (without
// state) and /v1/embeddings, streaming or not where the API can. The fields that
// matter: model (base or adapter), messages, prompt, input, system, instructions,
// tools, stream, stream_options, max_tokens and its synonyms, ignore_eos, n,
// cache_salt, return_token_ids, kv_transfer_params (the two legs of prefill and
// decode apart); the others are ignored. The header
// X-Data-Parallel-Rank pins a request to a rank; X-Request-Id becomes part of the
// answer's id. Further: /tokenize, /v1/messages/count_tokens, /render below four
// paths, /v1/models, /health, /ping, /load, /version, /metrics, /server_info,
// /kv_event_sources, /reset_prefix_cache (SGLang: /flush_cache), /sleep, /wake_up,
// /is_sleeping.
//
// # Tokens
//
// [Tokenize] splits at white space, the chat template puts each message between
// two special tokens, so a conversation is a prefix of its continuation, the
// engine's own answer included, in tokens as well as in text. [Text] makes
// prompts of an exact length.
//
// # Events
//
// With Config.Hub the ranks publish in process, on kvcache/follow; with Config.ZMQ
// on loopback ports, as ZeroMQ does; with Config.OpenPublisher on anything else,
// through a [Publisher] of your own. With the dialect TensorRTLLM they wait for POST
// /kv_cache_events, which takes them out.
//
// # Faults
//
// [Faults], [Engine.Kill], [Engine.Restart], [Engine.RestartUnseen] and
// [Engine.Refuse] do at run time what happens in production: lost, late and
// damaged events; restarts; hangs; errors; slowness; connections cut in
// mid-stream; stale, absent and wrong metrics; missing usage; prompts and block sizes that
// are not what the engine says they are.
//
// # Time
//
// The clock is that of package time. In a testing/synctest bubble everything
// happens in virtual time, provided that engine and clients are made in the
// bubble and talk over a [Network].
package fleettest
