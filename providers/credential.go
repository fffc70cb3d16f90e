package providers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unique"

	"github.com/kvsteer/kvsteer/internal/watch"
)

// CredentialSource gives the credential to send. It is asked for each request, with a
// deadline, and not again before it has answered: requests that come meanwhile share the
// answer. Whoever fetches credentials keeps them. It must heed its context.
type CredentialSource interface {
	Credential(ctx context.Context) (Credential, error)
}

// Credential is a secret: an API key or a token. It is shown to nobody but who calls
// Reveal. Two of the same secret are equal.
type Credential struct {
	// A handle, because package fmt looks into the unexported fields of what holds a
	// Credential, and finds an address.
	secret unique.Handle[string]
}

// NewCredential returns a Credential: visible ASCII without spaces.
func NewCredential(secret string) Credential {
	if secret == "" {
		return Credential{}
	}
	return Credential{unique.Make(secret)}
}

// Reveal returns the secret itself.
func (c Credential) Reveal() string {
	if c == (Credential{}) {
		return ""
	}
	return c.secret.Value()
}

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

// Credential implements CredentialSource.
func (s static) Credential(context.Context) (Credential, error) { return s.c, nil }

// String implements fmt.Stringer.
func (static) String() string { return "a static credential" }

// Func is a source that calls a function, such as one that gets tokens from an identity
// provider. What its error says is logged.
func Func(fn func(ctx context.Context) (string, error)) CredentialSource { return &function{fn} }

type function struct {
	fn func(ctx context.Context) (string, error)
}

// Credential implements CredentialSource.
func (f *function) Credential(ctx context.Context) (Credential, error) {
	if f.fn == nil {
		return Credential{}, errors.New("providers.Func was given no function")
	}
	secret, err := f.fn(ctx)
	if err != nil {
		return Credential{}, err
	}
	return NewCredential(secret), nil
}

// File is a source of what a file holds, without white space around it. It is plain data:
// the Set that uses it follows the file, and sends what it changed to within seconds. A
// file that becomes unreadable or empty changes nothing, and is logged.
func File(path string) CredentialSource { return file{path} }

type file struct{ path string }

// Credential implements CredentialSource: it reads the file.
func (f file) Credential(context.Context) (Credential, error) {
	read, err := watch.Read(f.path, maxSecretFile, secretErrors())
	if err != nil {
		return Credential{}, err
	}
	return fromFile(read.Data)
}

// String implements fmt.Stringer.
func (f file) String() string { return "the credential in file " + f.path }

const (
	maxSecretFile = 64 << 10
	lookInterval  = 2 * time.Second
)

// Errors about a credential's file as such. Seen by operators: the path is probably wrong.
var (
	// ErrFileTooLarge: the file is longer than 64 KiB.
	ErrFileTooLarge = errors.New("providers: a credential's file is too large")
	// ErrNotRegular: the path is a directory, a pipe or a device.
	ErrNotRegular = errors.New("providers: a credential's file is no file")
)

func secretErrors() watch.Errors {
	return watch.Errors{TooLarge: ErrFileTooLarge, NotRegular: ErrNotRegular, Advice: "correct the path"}
}

func fromFile(data []byte) (Credential, error) {
	secret := string(bytes.TrimSpace(data))
	return NewCredential(secret), usable(secret)
}

// followed is a file that a Set follows.
type followed struct {
	path  string
	files *watch.Files
	now   atomic.Pointer[Credential]
}

func follow(path string, now func() time.Time, failed func(error)) (*followed, error) {
	f := &followed{path: path}
	var err error
	f.files, err = watch.Open(watch.Options{
		Paths: []string{path}, Interval: lookInterval, MaxFileBytes: maxSecretFile, Now: now, Errors: secretErrors(),
		Load: f.load, Failed: failed, Restored: func() {},
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *followed) load(files []watch.File) error {
	c, err := fromFile(files[0].Data)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.now.Store(&c)
	return nil
}

func (f *followed) get() Credential { return *f.now.Load() }

// Credential implements CredentialSource.
func (f *followed) Credential(context.Context) (Credential, error) { return f.get(), nil }
