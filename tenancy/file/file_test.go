package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/file"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	one = "kv-11111111111111111111111111111111"
	two = "kv-22222222222222222222222222222222"
)

func hash(t testing.TB, secret string) string {
	t.Helper()
	h, err := tenancy.HashKey(secret)
	require.NoError(t, err)
	return h
}

// document has one key for a tenant.
func document(t testing.TB, secret, tenant string) string {
	t.Helper()
	return fmt.Sprintf("keys:\n- id: %s-1\n  hash: %s\n  tenant: %s\n", tenant, hash(t, secret), tenant)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func open(t *testing.T, path string, opts file.Options) *file.Source {
	t.Helper()
	s, err := file.Open(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// tenant is whose a secret is; "" if it is refused.
func tenant(t *testing.T, s tenancy.Resolver, secret string) string {
	t.Helper()
	id, err := s.Resolve(t.Context(), &tenancy.Presented{Header: http.Header{"Authorization": {"Bearer " + secret}}})
	if id == nil {
		var u *tenancy.UnverifiedError
		require.ErrorAs(t, err, &u)
		return ""
	}
	require.NoError(t, err)
	return id.Tenant
}

func looks(n int) {
	time.Sleep(time.Duration(n) * time.Second)
	synctest.Wait()
}

func TestParse(t *testing.T) {
	keys, err := file.Parse("keys.yaml", []byte(`
keys:
- &first
  id: search-2027
  hash: `+hash(t, one)+`
  org: acme
  team: search
  tenant: 7
  groups: [internal, all]
  class: gold
  priority: -1
  models: [qwen3, "llama-*"]
  providers: []
  expires: 2027-12-31T23:59:59+01:00
  disabled: true
- {<<: *first, id: search-2028, hash: "`+hash(t, two)+`", disabled: false}
`))
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.True(t, keys[0].Expires.Equal(time.Date(2027, 12, 31, 22, 59, 59, 0, time.UTC)))
	keys[0].Expires = time.Time{}
	require.Equal(t, tenancy.Key{
		Hash: hash(t, one), Disabled: true,
		Identity: tenancy.Identity{
			Org: "acme", Team: "search", Tenant: "7", Key: "search-2027", Groups: []string{"internal", "all"}, Class: "gold",
			Priority: -1, Models: []string{"qwen3", "llama-*"}, Providers: []string{},
		},
	}, keys[0])
	require.Equal(t, []any{"search-2028", hash(t, two), "acme", false}, []any{
		keys[1].Identity.Key, keys[1].Hash, keys[1].Identity.Org, keys[1].Disabled,
	})
	keys, err = file.Parse("keys.json", []byte("{\"keys\": [\n\t{\"id\": \"a\", \"hash\": \""+hash(t, one)+"\"}\n]}"))
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Nil(t, keys[0].Identity.Models, "all")
	keys, err = file.Parse("none.yaml", []byte("keys: []"))
	require.NoError(t, err)
	require.Empty(t, keys)
}

// Each mistake is told with its place, and no value is shown.
func TestMistakes(t *testing.T) {
	good := "{id: a, hash: " + hash(t, one) + "}"
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {" \n", `k.yaml: there are no keys; write "keys: []"`},
		"null":               {"keys:\n", "k.yaml:1:6: keys must be a list"},
		"nothing":            {"~", "k.yaml: there are no keys"},
		"another key":        {"key: []", `k.yaml:1:1: the file has no key "key"; did you mean "keys"?`},
		"two documents":      {"keys: []\n---\nkeys: []", "k.yaml:2:1: a second document"},
		"no YAML":            {"keys: [\n  {id: " + one, "k.yaml:3:1: not YAML"},
		"anchor":             {"keys: *" + one, "k.yaml:1"},
		"the key for a map":  {"keys: [" + one + "]", "k.yaml:1:8: an entry of keys must be a mapping of keys to values, found another text"},
		"the key as key":     {"keys: [{" + one + ": a}]", "k.yaml:1:9: an entry of keys has no such key; it has id, hash,"},
		"the key as hash":    {"keys:\n- id: a\n  hash: " + one, `k.yaml:3:9: hash must be "sha256:" and 64 hexadecimal digits, never the key itself`},
		"the key as boolean": {"keys: [{id: a, disabled: " + one + "}]", "k.yaml:1:26: disabled must be true or false"},
		"the key as number":  {"keys: [{id: a, priority: " + one + "}]", "k.yaml:1:26: priority must be a whole number"},
		"the key as time":    {"keys: [{id: a, expires: " + one + "}]", "k.yaml:1:25: expires must be a time with its zone, such as"},
		"a day":              {"keys: [{id: a, expires: 2027-12-31}]", "expires must be a time with its zone"},
		"typing error":       {"keys: [{id: a, tennant: x}]", `has no key "tennant"; did you mean "tenant"?`},
		"twice":              {"keys: [{id: a, id: b}]", `k.yaml:1:16: the key "id" is given twice`},
		"no id":              {"keys:\n- hash: " + hash(t, one), "k.yaml:2:3: id is empty"},
		"no hash":            {"keys:\n- id: a", "k.yaml:2:3: hash must be"},
		"one text for many":  {"keys: [{id: a, models: qwen3}]", `models must be a list; write "models: []" for none`},
		"null models":        {"keys: [{id: a, models: }]", `models must be a list`},
		"long tenant":        {"keys: [{id: a, hash: '" + hash(t, one) + "', tenant: " + strings.Repeat("x", 300) + "}]", "k.yaml:1:105: tenant is longer than 256 bytes"},
		"the same hash":      {"keys:\n- " + good + "\n- " + strings.Replace(good, "id: a", "id: b", 1), `k.yaml:3:17: hash is that of key "a", too`},
		"aliases":            {"a: &a [x]\nkeys: [*a]", `the file has no such key; it has keys`},
		"too many aliases":   {"keys:\n- &a {groups: &l [" + strings.Repeat("x,", 5000) + "]}\n" + strings.Repeat("- {groups: *l}\n", 500), "too many nodes"},
		"self":               {"keys: &a [*a]", "must be a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := file.Parse("k.yaml", []byte(c.text))
			require.ErrorContains(t, err, c.want)
			var where *file.Error
			require.ErrorAs(t, err, &where)
			require.NotContains(t, err.Error(), one[:8])
			require.NotContains(t, err.Error(), "sha256:b", "a hash is shown")
			require.Less(t, len(err.Error()), 10_000)
		})
	}
}

func TestFollowsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write(t, path, document(t, one, "acme"))
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var loads []int
		var errs []error
		var log bytes.Buffer
		s := open(t, path, file.Options{
			OnLoad:  func(n int) { mu.Lock(); defer mu.Unlock(); loads = append(loads, n) },
			OnError: func(err error) { mu.Lock(); defer mu.Unlock(); errs = append(errs, err) },
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.Equal(t, "acme", tenant(t, s, one))
		require.Empty(t, tenant(t, s, two))
		require.Equal(t, file.Status{Keys: 1, Files: []string{path}, Loaded: time.Now(), Loads: 1}, s.Status())

		write(t, path, document(t, two, "best"))
		looks(1)
		require.Equal(t, "acme", tenant(t, s, one), "seen once: it may be half written")
		looks(1)
		require.Empty(t, tenant(t, s, one))
		require.Equal(t, "best", tenant(t, s, two))

		// What is wrong or gone changes nothing, and is told once.
		for _, bad := range []func(){
			func() { write(t, path, "keys: ["+two+"]") },
			func() { write(t, path, "") },
			func() { require.NoError(t, os.Remove(path)) },
		} {
			bad()
			looks(5)
			require.Error(t, s.Status().Err)
			require.False(t, s.Status().Since.IsZero())
			require.Equal(t, "best", tenant(t, s, two))
		}
		require.Len(t, errs, 3)
		require.ErrorIs(t, s.Status().Err, os.ErrNotExist)
		write(t, path, document(t, two, "best"))
		looks(2)
		require.NoError(t, s.Status().Err, "it says what is in force again")
		require.Equal(t, []int{1}, loads)

		write(t, path, "keys: []")
		require.NoError(t, s.Reload(), "at once")
		require.Empty(t, tenant(t, s, two))
		require.Equal(t, []int{1, 0}, loads)
		require.Equal(t, 3, strings.Count(log.String(), "API keys stay as they were"))
		for _, secret := range []string{one, two, two[:12]} {
			require.NotContains(t, log.String(), secret)
			require.NotContains(t, fmt.Sprintf("%v %+v", s.Status(), errs), secret)
		}
	})
}

func TestADirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), document(t, one, "acme"))
	write(t, filepath.Join(dir, "below", "b.json"), `{"keys":[{"id":"b","hash":"`+hash(t, two)+`","tenant":"best"}]}`)
	write(t, filepath.Join(dir, "..data", "a.yaml"), "not: keys")
	s := open(t, dir, file.Options{})
	require.Equal(t, "acme", tenant(t, s, one))
	require.Equal(t, "best", tenant(t, s, two))
	write(t, filepath.Join(dir, "c.yaml"), document(t, two, "third"))
	err := s.Reload()
	require.ErrorContains(t, err, filepath.Join(dir, "c.yaml")+`:3:9: hash is that of key "b", too`)
	require.Equal(t, "best", tenant(t, s, two))
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.yaml")
	for name, c := range map[string]struct {
		path string
		opts file.Options
		want error
		text string
	}{
		"no path":  {text: "the path is empty"},
		"interval": {path: path, opts: file.Options{Interval: -1}, text: "Options.Interval is -1ns"},
		"missing":  {path: path, want: os.ErrNotExist},
		"no files": {path: dir, want: file.ErrNoFile},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := file.Open(c.path, c.opts)
			require.ErrorContains(t, err, c.text)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
	write(t, path, strings.Repeat("#", 8<<20+1))
	_, err := file.Open(path, file.Options{})
	require.ErrorIs(t, err, file.ErrTooLarge)
	write(t, path, "keys: 7")
	_, err = file.Open(path, file.Options{})
	var where *file.Error
	require.ErrorAs(t, err, &where)
}

func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write(t, path, document(t, one, "acme"))
	s, err := file.Open(path, file.Options{Interval: time.Microsecond})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, s.Close()) })
	}
	wg.Wait()
	require.Equal(t, "acme", tenant(t, s, one), "what is in force stays so")
}

// Whatever a file says, it is keys or an error with a place that shows no value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"keys: []", "keys: [{id: a, hash: x}]", "- a", "keys: &a [*a]", "? {a: b}\n: c", "\x00", "%YAML 1.1\n---\n[]",
		"keys: [{id: a, hash: 'sha256:" + strings.Repeat("ab", 32) + "', models: [a*], expires: 2027-01-01T00:00:00Z}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := file.Parse("k", data)
		if (err != nil) && keys != nil {
			t.Fatal("both")
		}
		var where *file.Error
		if err != nil && !errors.As(err, &where) {
			t.Fatalf("no place: %v", err)
		}
		for i := range keys {
			if keys[i].Identity.Key == "" || keys[i].Identity.Validate() != nil {
				t.Fatal(keys[i])
			}
		}
	})
}
