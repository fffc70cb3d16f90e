package dialect

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// direction is both ways between chat and messages, and what the other codec is.
func direction(toMessages bool) (client Client, service, back Service) {
	if toMessages {
		return Chat(), Messages(), Chat()
	}
	return Messages(), Chat(), Messages()
}

// streamExchange is an exchange whose answer is streamed.
func streamExchange(tb testing.TB, c Client, s Service) *Exchange {
	tb.Helper()
	const body = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"stream":true}`
	x, err := NewExchange(c, s, []byte(body), Options{ID: "1", Created: 1})
	require.NoError(tb, err)
	x.answer.IncludeUsage = true
	return x
}

// FuzzStreamSplit: however a stream is split, the client's is the same; and it keeps the order
// that its API promises.
func FuzzStreamSplit(f *testing.F) {
	for _, c := range readCorpus(f) {
		if in, ok := c.get("service stream"); ok {
			_, service := c.codecs()
			f.Add(service.Name() == messagesName, c.stream(in), []byte{1, 7, 2, 30})
		}
	}
	f.Fuzz(func(t *testing.T, toMessages bool, in, cuts []byte) {
		client, service, back := direction(toMessages)
		x := streamExchange(t, client, service)
		want, wantErr := translate(x, in, false, nil)
		i := 0
		got, err := translate(x, in, false, func(left int) int {
			if len(cuts) == 0 {
				return 1
			}
			n := 1 + int(cuts[i%len(cuts)])
			i++
			return min(n, left)
		})
		require.Equal(t, want, got)
		require.Equal(t, wantErr, err)
		require.NoError(t, assemble(service, in).bad)
		a := assemble(back, []byte(want))
		require.NoError(t, a.bad)
		switch {
		case wantErr == nil:
			require.True(t, a.whole || a.failed)
		case toMessages: // a reason of the end may have come, but not the last word
			require.NotContains(t, want, "data: [DONE]\n\n")
		default:
			require.False(t, a.whole)
		}
	})
}

// FuzzTranslate: whatever a client sends, the service gets a body of its API or nothing.
func FuzzTranslate(f *testing.F) {
	for _, c := range readCorpus(f) {
		in, _ := c.get("client request")
		_, service := c.codecs()
		f.Add(service.Name() == messagesName, []byte(in))
	}
	f.Fuzz(func(t *testing.T, toMessages bool, in []byte) {
		client, service, _ := direction(toMessages)
		x, err := NewExchange(client, service, in, Options{Model: "m"})
		if err != nil {
			var u *UnsupportedError
			var b *BodyError
			require.True(t, errors.As(err, &u) || errors.As(err, &b), "%T", err)
			return
		}
		_, err = jsonscan.Parse(x.Body(), 0)
		require.NoError(t, err, "%s", x.Body())
		reader, ok := service.(Client)
		require.True(t, ok)
		r, err := reader.DecodeRequest(x.Body())
		require.NoError(t, err, "%s", x.Body())
		assert.Equal(t, "m", r.Model)
		assert.Equal(t, x.Stream(), r.Stream)
		assert.LessOrEqual(t, len(x.Warnings()), maxWarnings)
	})
}

// FuzzTranslateAnswer: whatever a service answers, the client gets JSON of its API or an error.
func FuzzTranslateAnswer(f *testing.F) {
	for _, c := range readCorpus(f) {
		for _, s := range c.sections {
			if len(s.name) > 14 && s.name[:14] == "service answer" || s.name == "service answer" {
				_, service := c.codecs()
				f.Add(service.Name() == messagesName, []byte(s.text), byte(29))
			}
		}
	}
	f.Fuzz(func(t *testing.T, toMessages bool, in []byte, code byte) {
		client, service, back := direction(toMessages)
		x := streamExchange(t, client, service)
		if out, err := x.Answer(in); err == nil {
			_, err := jsonscan.Parse(out, 0)
			require.NoError(t, err, "%s", out)
			_, err = back.DecodeAnswer(out)
			require.NoError(t, err, "%s", out)
			stream, err := x.AnswerStream(in)
			require.NoError(t, err)
			a := assemble(back, stream)
			require.NoError(t, a.bad)
			require.True(t, a.whole)
		}
		_, status, body := x.Failure(400+int(code)%200, nil, in)
		require.GreaterOrEqual(t, status, 400)
		require.Less(t, status, 600)
		_, err := jsonscan.Parse(body, 0)
		require.NoError(t, err, "%s", body)
	})
}
