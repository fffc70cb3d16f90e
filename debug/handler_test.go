package debug_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/debug"
)

func TestOnlyReads(t *testing.T) {
	r := newRig(t, rigConfig{options: debug.Options{Authenticate: func(http.ResponseWriter, *http.Request) bool { return true }}})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PROPFIND"} {
		for _, path := range []string{"/", "/state.json", "/events"} {
			w := httptest.NewRecorder()
			r.console.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
	}
	for _, path := range []string{"/", "/state.json", "/events", "/app.js"} {
		w := httptest.NewRecorder()
		r.console.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, http.NoBody))
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Empty(t, w.Body.String(), path)
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	r := newRig(t, rigConfig{})
	for _, path := range []string{"/", "/index.html", "/app.js", "/style.css", "/state.json", "/nothing", "/../doc.go", "/a/b"} {
		_, h, _ := r.get(path)
		policy := h.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'", path)
		require.NotContains(t, policy, "unsafe", path)
		require.NotContains(t, policy, "http", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "DENY", h.Get("X-Frame-Options"), path)
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"), path)
		require.Empty(t, h.Get("Access-Control-Allow-Origin"), path)
		require.NotEmpty(t, h.Get("Cache-Control"), path)
	}
	for path, want := range map[string]int{"/nothing": 404, "/a/b": 404, "/doc.go": 404, "/assets/app.js": 404, "//evil.example/": 404} {
		status, _, _ := r.get(path)
		require.Equal(t, want, status, path)
	}
}

// The page names nothing that isn't here, and has no script or style of its own, which the
// content policy would not let run.
func TestThePageIsWhole(t *testing.T) {
	r := newRig(t, rigConfig{})
	status, h, page := r.get("/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, h.Get("Content-Type"), "text/html")
	require.NotRegexp(t, `(?i)<script|<style|\sstyle=|\son[a-z]+=|javascript:`, strings.ReplaceAll(page, "<script type=\"module\" src=", "<link "))
	names := regexp.MustCompile(`(?:src|href)="([^"#]+)"`).FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, names)
	queue, seen := []string{}, map[string]bool{}
	for _, n := range names {
		queue = append(queue, n[1])
	}
	imports := regexp.MustCompile(`from "\./([^"]+)"`)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		require.NotContains(t, name, ":", "nothing from elsewhere")
		status, h, body := r.get("/" + name)
		require.Equal(t, http.StatusOK, status, name)
		require.NotContains(t, h.Get("Content-Type"), "text/plain", name)
		if strings.HasSuffix(name, ".js") {
			for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
				require.NotContains(t, body, sink, name)
			}
			for _, m := range imports.FindAllStringSubmatch(body, -1) {
				queue = append(queue, m[1])
			}
		}
	}
	require.Contains(t, seen, "decisions.js")
}

func TestAssetsAreNotSentTwice(t *testing.T) {
	r := newRig(t, rigConfig{options: debug.Options{Authenticate: func(http.ResponseWriter, *http.Request) bool { return true }}})
	w := httptest.NewRecorder()
	r.console.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/style.css", http.NoBody))
	tag := w.Header().Get("Etag")
	require.NotEmpty(t, tag)
	again := httptest.NewRequest(http.MethodGet, "/style.css", http.NoBody)
	again.Header.Set("If-None-Match", tag)
	w = httptest.NewRecorder()
	r.console.ServeHTTP(w, again)
	require.Equal(t, http.StatusNotModified, w.Code)
	require.Empty(t, w.Body.String())
}

func TestAPathWithoutASlashLeadsToOneWith(t *testing.T) {
	r := newRig(t, rigConfig{})
	status, h, _ := r.get("")
	require.Equal(t, http.StatusFound, status)
	require.Equal(t, "./kvsteer/", h.Get("Location"), "relative: the console does not know where it is")
	status, h, _ = r.get("?next=//evil.example")
	require.Equal(t, http.StatusFound, status)
	require.Equal(t, "./kvsteer/", h.Get("Location"))
}

func TestBadOptions(t *testing.T) {
	_, err := debug.New(nil, debug.Options{})
	require.ErrorContains(t, err, "Router")
	r := newRig(t, rigConfig{})
	_, err = debug.New(r.router, debug.Options{MaxViewers: -1})
	require.ErrorContains(t, err, "MaxViewers")
}
