package prompt

import "github.com/kvsteer/kvsteer/internal/jsonscan"

// callerIDs serves requests whose prompt is token ids already. Of a batch of id
// lists it takes the first for matching, and counts all: the engine treats each
// as a request of its own, and one worker gets them all.
func callerIDs(r *Request, o jsonscan.Object) (Encoding, error) {
	if r.TokenIDs != nil {
		return exact(SourceCaller, r.TokenIDs, 0), nil
	}
	in := inputOf(r.API, o)
	if in.kind != inputIDs {
		return Encoding{}, ErrNotApplicable
	}
	ids, ok := in.first.Uint32s()
	if !ok {
		return Encoding{}, errNotIDs
	}
	ids, err := cutOf(o).ofIDs(ids)
	if err != nil {
		return Encoding{}, err
	}
	return exact(SourceCaller, ids, in.rest), nil
}

// exact is an encoding of known ids; more counts the tokens of further prompts.
func exact(kind SourceKind, ids []uint32, more int) Encoding {
	if len(ids) == 0 && more == 0 {
		return Encoding{}
	}
	return Encoding{Source: kind, Tokens: ids, Count: len(ids) + more}
}
