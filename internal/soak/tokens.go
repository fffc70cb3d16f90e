package main

import (
	"context"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// ownTokens computes the ids of completions in the gateway, as local tokenizers do, so that
// not every request costs a call to an engine. Chats go that way.
type ownTokens struct{}

func (ownTokens) Kind() prompt.SourceKind { return prompt.SourceLocal }

func (ownTokens) Encode(_ context.Context, r *prompt.Request) (prompt.Encoding, error) {
	if r.API != prompt.Completions {
		return prompt.Encoding{}, prompt.ErrNotApplicable
	}
	text, ok := r.Object.Value("prompt").Str()
	if !ok {
		return prompt.Encoding{}, prompt.ErrNotApplicable
	}
	ids := fleettest.Tokenize(text)
	return prompt.Encoding{Source: prompt.SourceLocal, Tokens: ids, Count: len(ids)}, nil
}
