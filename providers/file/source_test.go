package file_test

import (
	"bytes"
	"io"
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

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/file"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// keeper is a Set that takes everything.
type keeper struct {
	mu   sync.Mutex
	list []providers.Provider
}

func (k *keeper) Update(list []providers.Provider) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = list
	return nil
}

func (k *keeper) names() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.list {
		names = append(names, k.list[i].Name)
	}
	return names
}

func TestFollowsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "providers.yaml")
	write(t, path, manifest("a", "m"))
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var loads []int
		var errs []error
		var log bytes.Buffer
		var set keeper
		s := follow(t, path, &set, file.Options{
			OnLoad:  func(n int) { mu.Lock(); defer mu.Unlock(); loads = append(loads, n) },
			OnError: func(err error) { mu.Lock(); defer mu.Unlock(); errs = append(errs, err) },
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.Equal(t, []string{"a"}, set.names())
		require.Equal(t, file.Status{Providers: []string{"a"}, Files: []string{path}, Loaded: time.Now(), Loads: 1}, s.Status())

		write(t, path, manifest("a", "m")+"---\n"+manifest("b", "m"))
		looks(1)
		require.Equal(t, []string{"a"}, set.names(), "seen once: it may be half written")
		looks(1)
		require.Equal(t, []string{"a", "b"}, set.names())

		// What is wrong or gone changes nothing, and is told once.
		for _, bad := range []func(){
			func() { write(t, path, spec("  credentials: "+secret+"\n")) },
			func() { write(t, path, "") },
			func() { write(t, path, "apiVersion: v1\nkind: ConfigMap\n") },
			func() { require.NoError(t, os.Remove(path)) },
		} {
			bad()
			looks(5)
			require.Error(t, s.Status().Err)
			require.False(t, s.Status().Since.IsZero())
			require.Equal(t, []string{"a", "b"}, set.names())
			require.Equal(t, []string{"a", "b"}, s.Status().Providers)
		}
		require.Len(t, errs, 4)
		require.ErrorIs(t, errs[1], file.ErrNoProvider)
		require.ErrorIs(t, s.Status().Err, os.ErrNotExist)
		write(t, path, manifest("a", "m")+"---\n"+manifest("b", "m"))
		looks(2)
		require.NoError(t, s.Status().Err, "it says what is in force again")
		require.Equal(t, []int{2}, loads)

		write(t, path, manifest("c", "m"))
		require.NoError(t, s.Reload(), "at once")
		require.Equal(t, []string{"c"}, set.names())
		require.Equal(t, []int{2, 1}, loads)
		require.Equal(t, 4, strings.Count(log.String(), "providers stay as they were"))
		require.NotContains(t, log.String(), secret)
	})
}

// What package providers finds wrong is told with its place, and changes nothing.
func TestWhatASetRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.yaml")
	write(t, path, manifest("a", "m"))
	set := newSet(t)
	s := follow(t, path, set, file.Options{Interval: time.Hour})
	for name, c := range map[string]struct{ text, want string }{
		"name":       {strings.Replace(manifest("a", "m"), "name: a", `name: "a b"`, 1), `p.yaml:3:18: provider "a b": Name must be`},
		"two":        {manifest("a", "m") + "---\n" + manifest("a", "m"), `p.yaml:9:18: provider "a": Name is given twice`},
		"models":     {manifest("a", "m, m"), `p.yaml:5:15: provider "a": Models[1].Name is given twice`},
		"URL":        {spec("  url: ftp://x\n  models: [m]\n"), `p.yaml:5:8: provider "a": URL must begin with https://`},
		"path":       {spec("  paths: [/v1/chat/completions]\n"), `p.yaml:5:10: provider "a": Paths`},
		"header":     {spec("  header: {Authorization: " + secret + "}\n  models: [m]\n"), `p.yaml:5:11: provider "a": Header Authorization holds a secret`},
		"credential": {spec("  credentials: {file: none}\n  models: [m]\n"), `p.yaml:5:16: provider "a": Credentials can't be read`},
		"nothing":    {spec("  url: https://x\n"), `p.yaml:1:1: provider "a": Models is empty`},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, path, c.text)
			err := s.Reload()
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), secret)
			var where *file.Error
			require.ErrorAs(t, err, &where)
			require.Equal(t, []string{"a/m"}, offers(set))
		})
	}
}

// refuser refuses everything for one reason.
type refuser struct{ err error }

func (r *refuser) Update([]providers.Provider) error { return r.err }

// What is wrong with a part that isn't written is told with the place of what it is a part of.
func TestPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	write(t, path, spec("  models:\n  - {name: m}\n"))
	for field, want := range map[string]string{
		"Models[0].APIs": "p.yaml:6:5: ", "Models[0].Name": "p.yaml:6:12: ", "Models": "p.yaml:6:3: ", "Paths": "p.yaml:1:1: ",
	} {
		wrong := &providers.ConfigError{Index: 0, Provider: "a", Field: field, Reason: "is wrong", Err: os.ErrInvalid}
		_, err := file.Follow(path, &refuser{wrong}, file.Options{})
		require.ErrorContains(t, err, want+`provider "a": `+field+" is wrong: invalid argument")
	}
	_, err := file.Follow(path, &refuser{providers.ErrClosed}, file.Options{})
	require.ErrorIs(t, err, providers.ErrClosed)
}

// A credential's file may come after the manifest that names it.
func TestCredentialsMayComeLater(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.yaml")
	write(t, path, manifest("a", "m"))
	set := newSet(t)
	var mu sync.Mutex
	n := 0
	s := follow(t, path, set, file.Options{Interval: time.Millisecond, OnError: func(error) { mu.Lock(); defer mu.Unlock(); n++ }})
	replace := func(path, text string) { // at once
		write(t, path+".new", text)
		require.NoError(t, os.Rename(path+".new", path))
	}
	replace(path, spec("  credentials: {file: key}\n  models: [other]\n"))
	require.Eventually(t, func() bool { return s.Status().Err != nil }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"a/m"}, offers(set))
	for range 3 {
		require.Error(t, s.Reload())
	}
	replace(filepath.Join(dir, "key"), "secret\n")
	require.Eventually(t, func() bool { return len(set.Offers("other")) == 1 }, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return s.Status().Err == nil }, 30*time.Second, time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, n, "it is told once")
}

// What stays the same keeps what was learned of it: the Offers are those of before, kinds of
// programs among them.
func TestKeepsWhatStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.yaml")
	kind := "  kind: Own\n  options: {region: eu}\n  url: https://h\n"
	write(t, path, spec(kind+"  models: [m, n]\n"))
	made := 0
	set := newSet(t)
	s := follow(t, path, set, file.Options{Interval: time.Hour, Kinds: map[string]file.Factory{
		"Own": func(map[string]string) (providers.Kind, error) { made++; return &providers.AzureOpenAI{}, nil },
	}})
	before := set.Offers("m")[0]
	write(t, path, spec(kind+"  models: [m, o]\n"))
	require.NoError(t, s.Reload())
	require.Equal(t, []string{"a/m", "a/o"}, offers(set))
	require.Same(t, before, set.Offers("m")[0])
	require.Equal(t, 1, made)
	write(t, path, spec(strings.Replace(kind, "eu", "us", 1)+"  models: [m, o]\n"))
	require.NoError(t, s.Reload())
	require.Equal(t, 2, made)
}

func TestADirectory(t *testing.T) {
	dir, also := t.TempDir(), filepath.Join(t.TempDir(), "also.txt")
	write(t, filepath.Join(dir, "a.yaml"), manifest("a", "m"))
	write(t, filepath.Join(dir, "below", "b.json"),
		`{"apiVersion":"kvsteer.dev/v1alpha1","kind":"InferenceProvider","metadata":{"name":"b"},"spec":{"credentials":{"file":"key"},"models":["m"]}}`)
	write(t, filepath.Join(dir, "below", "key"), "secret\n")
	write(t, filepath.Join(dir, "..data", "a.yaml"), "not: providers")
	write(t, also, manifest("z", "m"))
	set := newSet(t)
	s := follow(t, dir, set, file.Options{Also: []string{also}, Interval: time.Hour})
	require.Equal(t, []string{"a/m", "b/m", "z/m"}, offers(set), "the key is found from its manifest")
	write(t, filepath.Join(dir, "c.yaml"), manifest("b", "m"))
	require.ErrorContains(t, s.Reload(), filepath.Join(dir, "c.yaml")+`:3:18: provider "b": Name is given twice`)
	require.Equal(t, []string{"a/m", "b/m", "z/m"}, offers(set))
}

func TestFollowRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.yaml")
	for name, c := range map[string]struct {
		path string
		opts file.Options
		want error
		text string
	}{
		"no path":  {text: "providers/file: the path is empty; name a file or a directory with providers"},
		"interval": {path: path, opts: file.Options{Interval: -1}, text: "Options.Interval is -1ns"},
		"missing":  {path: path, want: os.ErrNotExist},
		"no files": {path: dir, want: file.ErrNoProvider},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := file.Follow(c.path, &keeper{}, c.opts)
			require.ErrorContains(t, err, c.text)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
	write(t, path, strings.Repeat("#", 8<<20+1))
	_, err := file.Read(path, file.Options{})
	require.ErrorIs(t, err, file.ErrTooLarge)
	_, err = file.Read(dir, file.Options{})
	require.ErrorIs(t, err, file.ErrNotRegular)
	write(t, path, "")
	_, err = file.Read(path, file.Options{})
	require.ErrorIs(t, err, file.ErrNoProvider)
}

func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	write(t, path, manifest("a", "m"))
	var set keeper
	s, err := file.Follow(path, &set, file.Options{Interval: time.Microsecond})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, s.Close()) })
	}
	wg.Wait()
	require.Equal(t, []string{"a"}, set.names(), "what is in force stays so")
}

// The file with every key serves requests: each provider's fake gets the model's name and
// the credential that stand there.
func TestServes(t *testing.T) {
	fakes := map[string]*providertest.Server{
		"openai":    providertest.New(t, providertest.OpenAI, providertest.Options{Key: "key-of-openai"}),
		"anthropic": providertest.New(t, providertest.Anthropic, providertest.Options{Key: "key-of-anthropic"}),
		"azure":     providertest.New(t, providertest.AzureOpenAI, providertest.Options{Key: "key-of-azure"}),
		"gemini":    providertest.New(t, providertest.Gemini, providertest.Options{Key: "key-of-gemini"}),
	}
	text, err := os.ReadFile(everyKey)
	require.NoError(t, err)
	for name, fake := range fakes {
		text = bytes.ReplaceAll(text, []byte("http://"+name+".test"), []byte(fake.URL()))
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "providers.yaml"), string(text))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "secrets"), os.DirFS("testdata/secrets")))
	set := newSet(t)
	follow(t, filepath.Join(dir, "providers.yaml"), set, file.Options{Interval: time.Hour})

	base := &http.Transport{}
	defer base.CloseIdleConnections()
	upstream := map[string]string{"openai": "gpt-4o-2024-11-20", "anthropic": "claude-sonnet-4-5", "azure": "prod", "gemini": "gemini-2.5-flash"}
	served := 0
	for _, offer := range set.All() {
		fake := fakes[offer.Provider()]
		if offer.Upstream() != upstream[offer.Provider()] {
			continue
		}
		served++
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/chat/completions",
			strings.NewReader(`{"model":"`+offer.Model()+`","messages":[{"role":"user","content":"Hello"}]}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		resp, err := offer.RoundTripper(base, providers.Exchange{API: prompt.Chat}).RoundTrip(r)
		require.NoError(t, err, offer.ID())
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode, "%s: %s", offer.ID(), body)
		require.Contains(t, string(body), "Hello there.")
		require.Equal(t, offer.Upstream(), fake.Last().Model)
	}
	require.Equal(t, 4, served)
	require.Equal(t, "org-1", fakes["openai"].Last().Header.Get("Openai-Organization"))
	require.Equal(t, "openai", set.ForPath("/v1/files/file-1").Provider())
}
