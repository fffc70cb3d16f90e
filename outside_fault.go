package kvsteer

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/providers"
)

// What an attempt at a provider failed with, and what follows for the attempts to come and
// for what the client is told.

// outsideError is why an attempt at a provider is given up.
type outsideError struct {
	provider string
	failure  providers.Failure
}

func (e *outsideError) Error() string {
	return fmt.Sprintf("the provider %s answered with %d: %s", quote(e.provider), e.failure.Status, e.failure.Class)
}

// failureOf is what an answer of a provider failed with, nil if it is none.
func failureOf(resp *http.Response) *providers.Failure {
	if f, ok := resp.Body.(interface{ Failure() *providers.Failure }); ok {
		return f.Failure()
	}
	return nil
}

// learn keeps what the failed attempt says of those to come, once for each. The caller holds s.mu.
func (s *Selection) learn(cause error) {
	var answered *outsideError
	if errors.As(cause, &answered) && answered.failure.Class == providers.ClassContext && s.attempt.offer != nil {
		s.narrow = max(s.narrow, s.attempt.offer.ContextWindow())
	}
	if unsupported(cause) {
		s.untaken++
	}
}

// tooNarrow reports whether m has no wider a context window than one that was too narrow.
func (s *Selection) tooNarrow(m *fleet.Member, v int) bool {
	if s.narrow == 0 {
		return false
	}
	n := m.MaxModelLen(s.views[v].model)
	return n > 0 && n <= s.narrow
}

// outsideOnly is the error to answer with if cause ends a request whatever other candidates
// there are; nil if another may be tried.
func outsideOnly(cause error) *Error {
	var e *providers.Error
	if !errors.As(cause, &e) || e.Class.FallsBack() {
		return nil
	}
	if e.Class == providers.ClassRequest {
		return badRequest(e, "%s", e.Message)
	}
	return &Error{Code: CodeUpstream, Message: e.Message, Err: e}
}

// unsupported reports whether an attempt ended because its provider can't be asked that in
// its API.
func unsupported(cause error) bool {
	var e *providers.Error
	return errors.As(cause, &e) && e.Class == providers.ClassUnsupported
}

// untranslated is the error for a request that nobody could be asked.
func untranslated(cause error) *Error {
	var e *providers.Error
	_ = errors.As(cause, &e)
	return badRequest(e, "%s", e.Message)
}
