//go:build e2e

package oidc_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/oidc"
)

const callback = "http://127.0.0.1:1/callback"

// provider is a real OpenID provider in a process of its own.
type provider struct {
	t      *testing.T
	binary string
	issuer string
	cmd    *exec.Cmd
	stdin  io.Closer
}

func buildProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, binary: filepath.Join(t.TempDir(), "provider")}
	build := exec.Command("go", "build", "-o", p.binary, ".")
	build.Dir, build.Env, build.Stderr = filepath.Join("testdata", "provider"), append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0"), os.Stderr
	require.NoError(t, build.Run())
	t.Cleanup(p.stop)
	return p
}

// start runs it, where it ran before.
func (p *provider) start() {
	p.t.Helper()
	listen := "127.0.0.1:0"
	if p.issuer != "" {
		listen = must(url.Parse(p.issuer)).Host
	}
	p.cmd = exec.Command(p.binary, "-listen", listen, "-callback", callback)
	p.cmd.Stderr = os.Stderr
	p.stdin = must(p.cmd.StdinPipe())
	out := must(p.cmd.StdoutPipe())
	require.NoError(p.t, p.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(p.t, err)
	p.issuer = strings.TrimSpace(line)
}

func (p *provider) stop() {
	if p.cmd != nil {
		_ = p.stdin.Close()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// login is the authorization code flow, as a browser and the client go through it.
func (p *provider) login() (idToken string) {
	p.t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &http.Client{
		Jar: must(cookiejar.New(nil)), Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	next := func(res *http.Response, err error) *url.URL {
		p.t.Helper()
		require.NoError(p.t, err)
		require.NoError(p.t, res.Body.Close())
		require.Equal(p.t, http.StatusFound, res.StatusCode, res.Request.URL.Path)
		return must(res.Location())
	}
	form := next(c.Get(p.issuer + "auth?" + url.Values{ //nolint:bodyclose // next closes it
		"response_type": {"code"}, "client_id": {"web"}, "scope": {"openid profile"}, "state": {"s"}, "redirect_uri": {callback},
	}.Encode()))
	back := next(c.PostForm(p.issuer+"login/username", url.Values{ //nolint:bodyclose // next closes it
		"id": {form.Query().Get("authRequestID")}, "username": {"test-user@127.0.0.1"}, "password": {"verysecure"},
	}))
	code := next(c.Get(back.String())).Query().Get("code") //nolint:bodyclose // next closes it
	require.NotEmpty(p.t, code)
	req := must(http.NewRequest(http.MethodPost, p.issuer+"oauth/token", strings.NewReader(url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback},
	}.Encode())))
	req.SetBasicAuth("web", "secret")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := c.Do(req)
	require.NoError(p.t, err)
	defer res.Body.Close()
	var answer struct {
		IDToken string `json:"id_token"`
	}
	require.NoError(p.t, json.NewDecoder(res.Body).Decode(&answer))
	require.NotEmpty(p.t, answer.IDToken)
	return answer.IDToken
}

// TestRealProvider takes tokens of a provider that is not ours, before and after it has
// other keys, and while it is away.
func TestRealProvider(t *testing.T) {
	p := buildProvider(t)
	p.start()
	ahead := newClock()
	ahead.nanos.Store(0)
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.nanos.Load())) }
	newResolver := func(audience string) *oidc.Resolver {
		r, err := oidc.New(oidc.Options{
			Issuers: []oidc.Issuer{{
				URL: p.issuer, Audiences: []string{audience}, Algorithms: []string{"RS256"}, Claims: oidc.Claims{Tenant: "azp", Key: "sub"},
			}},
			Now: now, Timeout: 30 * time.Second,
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		return r
	}
	r, other := newResolver("web"), newResolver("somebody-else")
	refused := func(r *oidc.Resolver, token string) string {
		t.Helper()
		_, err := r.Resolve(t.Context(), bearer(token))
		var u *tenancy.UnverifiedError
		require.ErrorAs(t, err, &u)
		return u.Reason
	}

	first := p.login()
	id, err := r.Resolve(t.Context(), bearer(first))
	require.NoError(t, err)
	require.Equal(t, &tenancy.Identity{Tenant: "web", Key: "id1", By: "jwt", Spent: []string{"Authorization"}}, id)
	require.Equal(t, "it is for another audience", refused(other, first))
	require.Equal(t, "malformed", refused(r, first[:strings.LastIndex(first, ".")+1]))
	require.Equal(t, "the signature is wrong", refused(r, first[:strings.LastIndex(first, ".")+1]+flip(first[strings.LastIndex(first, ".")+1:])))

	// Its keys are in its memory: it has others when it is back.
	p.stop()
	ahead.advance(time.Minute)
	_, err = r.Resolve(t.Context(), bearer(first))
	require.NoError(t, err, "it is away")
	p.start()
	second := p.login()
	id, err = r.Resolve(t.Context(), bearer(second))
	require.NoError(t, err)
	require.Equal(t, "web", id.Tenant)
	require.NotEmpty(t, refused(r, first))
}
