package fleet_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

func TestModelsOverTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b, c := newEngine("m", "x<m"), newEngine("m"), newEngine("z")
		b.models = strings.ReplaceAll(b.models, "4096", "8192")
		c.health = http.StatusServiceUnavailable
		n.add("a", a)
		n.add("b", b)
		n.add("c", c)
		f := start(t, fleet.Options{HTTPClient: n.client(), Discoverer: fleet.Static(
			fleet.Worker{Name: "a", URL: "http://a"}, fleet.Worker{Name: "b", URL: "http://b"},
			fleet.Worker{Name: "c", URL: "http://c", Models: []string{"z"}},
			fleet.Worker{Name: "d", URL: "http://nowhere"},
		)})
		ready(t, f)
		synctest.Wait()
		s := f.Snapshot()
		models := s.Models()
		require.Len(t, models, 3)
		assert.Equal(t, fleet.ServedModel{Model: fleet.Model{Name: "m", Root: "/m/m", MaxModelLen: 8192}, Members: 2, Routable: 2}, models[0])
		assert.Equal(t, fleet.ServedModel{Model: fleet.Model{Name: "x", Parent: "m", Root: "/m/x", MaxModelLen: 4096}, Members: 1, Routable: 1}, models[1])
		assert.Equal(t, fleet.ServedModel{Model: fleet.Model{Name: "z"}, Members: 1}, models[2])
		assert.Equal(t, 1, s.Pending(), "d may still turn out to serve anything")
		assert.Equal(t, []string{"a", "b"}, names(s.ForModel("m")))
		assert.Equal(t, []string{"a", "b", "c", "d"}, names(s.Members()))
		assert.Equal(t, 2, s.Routable())
		assert.False(t, s.Member("b").Serves("x"))
		assert.Nil(t, s.Member("nobody"))
		assert.Positive(t, s.Version())
		assert.False(t, s.At().IsZero())
	})
}

func TestModelListTroubles(t *testing.T) {
	cases := []struct {
		name     string
		models   string // the engine's answer, "" for 404
		declared []string
		want     []string
		problem  string
	}{
		{"none declared, none listed", "", nil, nil, "answers with status 404: declare models"},
		{"declared, none listed", "", []string{"m"}, []string{"m"}, ""},
		{"not JSON", "<html>secret</html>", []string{"m"}, []string{"m"}, "not a JSON model list"},
		{"some declared", modelsJSON("m", "y"), []string{"m"}, []string{"m"}, ""},
		{"one is not listed", modelsJSON("m"), []string{"m", "lora"}, []string{"m", "lora"}, "engine doesn't list (lora)"},
		{"unusable names", `{"data":[{"id":""},{"id":"a\u0000"},{"id":"ok","max_model_len":-5,"parent":"ok"}]}`, nil, []string{"ok"}, ""},
		{"twice", modelsJSON("m", "m"), nil, []string{"m"}, ""},
		{"empty list", `{"data":[]}`, nil, nil, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, e := newNetwork(), newEngine()
				e.models = c.models
				n.add("a", e)
				f := start(t, fleet.Options{
					Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a", Models: c.declared}), HTTPClient: n.client(),
				})
				ready(t, f)
				m := f.Snapshot().Member("w")
				for _, model := range c.want {
					assert.True(t, m.Serves(model), model)
					assert.Equal(t, []string{"w"}, names(f.Snapshot().ForModel(model)))
				}
				assert.Len(t, m.Models(), len(c.want))
				if problems := strings.Join(m.Health().Problems, "; "); c.problem == "" {
					assert.Empty(t, problems)
				} else {
					assert.Contains(t, problems, c.problem)
					assert.NotContains(t, problems, "secret")
				}
			})
		})
	}
}

func TestModelsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		n.add("a", e)
		l := newLister()
		f := start(t, fleet.Options{Discoverer: l, HTTPClient: n.client()})
		w := fleet.Worker{Name: "w", URL: "http://a"}
		require.NoError(t, l.set(w))
		ready(t, f)
		e.set(func(e *engine) { e.models = modelsJSON("m", "late<m") })
		time.Sleep(6 * time.Second)
		assert.Len(t, f.Snapshot().ForModel("late"), 1, "an adapter that was loaded later")
		w.Models = []string{"m"}
		require.NoError(t, l.set(w))
		time.Sleep(200 * time.Millisecond)
		assert.Empty(t, f.Snapshot().ForModel("late"), "no longer declared")
	})
}

// TestHostileAnswers: what an engine, or whoever answers in its place, sends must
// not exhaust us, and must not send us elsewhere.
func TestHostileAnswers(t *testing.T) {
	var elsewhere int
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer target.Close()
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	}
	given := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	cases := map[string]struct {
		handler http.HandlerFunc
		want    string
		client  *http.Client
	}{
		"redirect":                 {redirect, "/health answers with a redirect (status 307)", nil},
		"redirect, client of ours": {redirect, "/health answers with a redirect (status 307)", given},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, "longer than 1048576 bytes", nil},
		"breaks off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(c.handler)
			defer srv.Close()
			seen := make(chan error, 100)
			f := start(t, fleet.Options{
				Discoverer:       fleet.Static(fleet.Worker{Name: "w", URL: srv.URL}),
				MaxResponseBytes: 1 << 20,
				HTTPClient:       c.client,
				OnChange: func(ch fleet.Change) {
					if err := ch.Member.Health().Err; err != nil {
						seen <- err
					}
				},
			})
			require.ErrorContains(t, <-seen, c.want)
			assert.Empty(t, f.Snapshot().ForModel("m"))
		})
	}
	assert.Zero(t, elsewhere)
}

func TestPrepareAddsCredentials(t *testing.T) {
	e := newEngine("m")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") && r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		e.ServeHTTP(w, r)
	}))
	defer srv.Close()
	w := fleet.Static(fleet.Worker{Name: "w", URL: srv.URL})
	without := start(t, fleet.Options{Discoverer: w})
	ready(t, without)
	assert.Contains(t, without.Snapshot().Member("w").Health().Problems[0], "add credentials with Options.Prepare")
	with := start(t, fleet.Options{Discoverer: w, Prepare: func(r *http.Request, w *fleet.Worker) {
		if w.Name == "w" {
			r.Header.Set("Authorization", "Bearer k")
		}
	}})
	ready(t, with)
	assert.Len(t, with.Snapshot().ForModel("m"), 1)
}
