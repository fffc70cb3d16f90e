package prompt

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// other is a source that is not local.
type other struct{ local }

func (*other) Kind() SourceKind { return SourceRender }

// Local sources are asked each time, before the cache; what comes after them is
// cached, and its degradations come after theirs.
func TestLocalSourcesGoFirst(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	client := roundTrip(func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		return ok(ids123)
	}).client()
	refusing, serving := &local{err: ReasonError("no such thing")}, &local{}
	e := newEncoder(t, Options{Sources: []Source{refusing, serving}, Client: client})
	for range 3 {
		enc := encode(t, e, Completions, text("a"), "http://a")
		assert.Equal(t, SourceLocal, enc.Source)
		assert.Equal(t, "local: no such thing; ", reasons(enc))
	}
	assert.EqualValues(t, 3, serving.calls.Load())
	assert.Zero(t, e.Stats().Hits+e.Stats().Misses, "not through the cache")
	assert.Zero(t, asked.Load())

	serving.err = ReasonError("nor that")
	for range 3 {
		enc := encode(t, e, Completions, text("b"), "http://a")
		assert.Equal(t, SourceTokenize, enc.Source)
		assert.Equal(t, "local: no such thing; local: nor that; render: malformed reply; ", reasons(enc))
	}
	assert.EqualValues(t, 6, refusing.calls.Load())
	assert.EqualValues(t, 2, e.Stats().Hits)
}

// A local source behind another keeps its place.
func TestOrderOfSources(t *testing.T) {
	t.Parallel()
	first, second := &other{}, &local{}
	e := newEncoder(t, Options{Sources: []Source{first, second}})
	enc := encode(t, e, Completions, text("a"), "")
	assert.EqualValues(t, 1, first.calls.Load())
	assert.Zero(t, second.calls.Load())
	assert.Equal(t, SourceLocal, enc.Source, "as the source says")
}

// waiting is a local source that breaks the rule and waits.
type waiting struct{}

func (waiting) Kind() SourceKind { return SourceLocal }

func (waiting) Encode(ctx context.Context, _ *Request) (Encoding, error) {
	<-ctx.Done()
	return Encoding{}, ctx.Err()
}

func TestLocalSourceHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEncoder(t, Options{Sources: []Source{waiting{}, &local{}}, Deadline: DefaultDeadline, NoRender: true, NoTokenize: true})
		began := time.Now()
		enc := encode(t, e, Completions, text("a"), "")
		assert.Equal(t, DefaultDeadline, time.Since(began))
		assert.Equal(t, "local: deadline exceeded; local: deadline exceeded; ", reasons(enc))
		assert.Equal(t, SourceBytes, enc.Source)
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		enc, err := e.Encode(gone, &Request{API: Completions, Body: []byte(text("a"))})
		require.NoError(t, err)
		assert.Equal(t, "local: canceled; local: canceled; ", reasons(enc))
	})
}
