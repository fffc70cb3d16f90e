// Package bedrock makes models at Amazon Bedrock candidates: it is a kind of provider, for
// package providers.
//
//	set, err := providers.New([]providers.Provider{{
//		Name:   "bedrock",
//		Kind:   bedrock.New(bedrock.Options{Region: "eu-central-1", Credentials: cfg.Credentials}),
//		Models: []providers.Model{{Name: "claude", Upstream: "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"}},
//	}}, providers.Options{})
//
// Requests of any API that clients speak are translated to the Converse operation, and
// streams to ConverseStream. A model's Upstream is what Bedrock calls modelId: the id of a
// model, of an inference profile, or an ARN.
//
// Requests are signed with credentials of AWS (an aws.CredentialsProvider, such as that of
// config.LoadDefaultConfig of the AWS SDK), or carry an API key of Bedrock, which is then
// the Provider's Credentials. Only the signer and the decoder of event streams are taken
// from the SDK, so the module is light.
//
// # What Converse has nothing for
//
// Refused, so that another candidate can serve the request: images and documents at URLs (but
// those of S3 that Options allow; the service reads them as the gateway), any JSON object as
// the answer's form without a schema, tool_choice none in a conversation with tool calls,
// calls of one tool at a time but with Claude, log probabilities. Listed as warnings: what
// leaves little different, such as a seed.
// Guardrails are not configured by requests; they belong to the account. Citations in
// answers are left out, their texts stay.
//
// # What this was tried with
//
// A fake of the service, package bedrocktest, with which AWS's own client for Go works, too,
// and whose signatures are checked by AWS's own signer. Paths are those of that client, to
// the byte. It was never tried with the service itself: nobody's account was at hand.
package bedrock
