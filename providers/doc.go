// Package providers makes external inference services candidates beside a fleet's own
// workers: OpenAI and everything that speaks its API, Anthropic, Azure OpenAI, Gemini,
// and, in module providers/bedrock, Amazon Bedrock.
//
// A [Set] holds the providers in force. An [Offer] is one model at one of them: what it
// takes, how it stands, what to expect of it and what it costs; [Offer.Begin] books a
// request. [Offer.RoundTripper] is a transport that takes a request as the client sent it
// and returns the answer as the client expects it: credentials, the model's name, headers
// and, where provider and client speak different APIs, translation happen within.
//
// All that is learned (latency, quota, failures, how many requests at once are bearable)
// belongs to one model at one provider, and is kept when the list of providers is
// replaced. Nothing here is logged of what prompts, credentials or providers' messages say.
package providers
