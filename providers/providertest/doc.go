// Package providertest is a fake of the services that inference is bought from: HTTP
// servers that look like OpenAI, Azure OpenAI, Gemini's OpenAI-compatible endpoint and
// Anthropic to a gateway, a router or an SDK, and do what a script says.
//
// # Use
//
//	s := providertest.New(t, providertest.Anthropic, providertest.Options{Key: "k"})
//	s.Script(
//		providertest.Answer{Text: "Hello"},
//		providertest.Answer{Fault: providertest.Overloaded, RetryAfter: 2 * time.Second},
//		providertest.Answer{Text: "Never whole", Frames: providertest.Frames{DieAt: 4}},
//	)
//	... requests to s.URL() ...
//	s.Requests()
//
// New closes the server at the end of a test; programs use Start and Close. Each request
// that asks a model takes the next answer of the script, streamed or whole, in whichever
// API it came; when the script is at its end, Options.Reply answers, or else a greeting
// that says how many images it was shown.
//
// # What is true of it
//
// The shapes of answers, of events and their order, of errors and of headers are the
// services'. Requests are checked as the services check them, and refused with the same
// status, type, code and field: unknown roles, results of tools that nobody called,
// parameters that an API doesn't have, no max_tokens for Anthropic, no version header.
// What a model takes depends on its name: "o3" and "gpt-5" as OpenAI's models that reason,
// "claude-opus-4-7" as of its generation; a name that says nothing takes what any does.
// Messages of errors have the words by which clients are known to tell them apart; the
// rest of them is ours. What is made up: texts, and tokens, which are words.
//
// It was written from the services' public documentation and errors that their users have
// reported, and is tried with their official SDKs (internal/e2e/sdk); it has not been
// compared with the services themselves.
//
// # API
//
//   - OpenAI: POST /v1/chat/completions, completions, responses, embeddings; GET
//     /v1/models; /v1/files and /v1/batches. Options.Prefix puts another path in place of
//     /v1.
//   - AzureOpenAI: the same below /openai/deployments/NAME, with api-version, and below
//     /openai/v1.
//   - Gemini: the same below /v1beta/openai, without responses.
//   - Anthropic: POST /v1/messages and /v1/messages/count_tokens, GET /v1/models.
//
// # Time
//
// The clock is that of package time. In a testing/synctest bubble everything happens in
// virtual time, provided that server and clients are made in the bubble and
// Options.Listener is one of the process, such as that of a fleettest.Network.
package providertest
