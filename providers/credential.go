package providers

import (
	"context"
	"errors"
	"fmt"
)

// CredentialSource gives the credential to send. It is asked for each request, with a
// deadline, by one goroutine at a time; whoever fetches credentials keeps them.
type CredentialSource interface {
	Credential(ctx context.Context) (Credential, error)
}

// Credential is a secret: an API key or a token. It shows itself to nobody but Reveal's caller.
type Credential struct{ secret string }

// NewCredential returns a Credential.
func NewCredential(secret string) Credential { return Credential{secret: secret} }

// Reveal returns the secret itself.
func (c Credential) Reveal() string { return c.secret }

// redacted is what is shown of a secret.
const redacted = "(secret)"

// String implements fmt.Stringer: the secret is not shown.
func (c Credential) String() string { return redacted }

// GoString implements fmt.GoStringer: the secret is not shown.
func (c Credential) GoString() string { return redacted }

// Format implements fmt.Formatter: whatever the verb, the secret is not shown.
func (c Credential) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler: the secret is not shown.
func (c Credential) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Static is a source of one credential.
func Static(secret string) CredentialSource { return static{NewCredential(secret)} }

type static struct{ c Credential }

func (s static) Credential(context.Context) (Credential, error) { return s.c, nil }

// Func is a source that calls a function, such as one that gets tokens from an identity
// provider. The function must heed its context, and should keep what it got: it is called
// for each request, though never by two at a time. What its error says is logged.
func Func(fn func(ctx context.Context) (string, error)) CredentialSource { return &function{fn} }

type function struct {
	fn func(ctx context.Context) (string, error)
}

func (f *function) Credential(ctx context.Context) (Credential, error) {
	s, err := f.fn(ctx)
	return NewCredential(s), err
}

// File is a source of what a file holds, without white space around it. It is plain data:
// the Set that uses it follows the file, and takes what changed within seconds.
func File(path string) CredentialSource { return file{path} }

type file struct{ path string }

func (f file) Credential(context.Context) (Credential, error) {
	return Credential{}, errors.New(notWritten)
}
