//go:build e2e

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is for a machine that does everything at once.
const patience = 60 * time.Second

// axeSource is axe-core, which fetch.sh fetches.
var axeSource = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("sh", "./fetch.sh").Output()
	if err != nil {
		return "", fmt.Errorf("fetch.sh: %w", err)
	}
	data, err := os.ReadFile(strings.TrimSpace(string(out)))
	return string(data), err
})

// browser is the one of all tests, which run one after the other and have a tab each. It
// ends with the process.
var browser = sync.OnceValues(func() (context.Context, error) {
	var options []chromedp.ExecAllocatorOption
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own rule
	}
	ctx, stop := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(options...))
	endBrowser = stop
	return ctx, chromedp.Do(ctx)
})

var endBrowser = func() {}

func TestMain(m *testing.M) {
	status := m.Run()
	endBrowser()
	os.Exit(status)
}

// look is how a page is looked at.
type look struct {
	name          string
	width, height int64
	phone, dark   bool
	// judged: axe looks at it. Each colour and each width is, in one of the two.
	judged bool
}

func looks() []look {
	return []look{
		{name: "desktop-light", width: 1280, height: 860, judged: true},
		{name: "desktop-dark", width: 1280, height: 860, dark: true},
		{name: "phone-light", width: 390, height: 844, phone: true},
		{name: "phone-dark", width: 390, height: 844, phone: true, dark: true, judged: true},
	}
}

// page is a tab of a real browser that holds against the console whatever goes wrong.
type page struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // it is what chromedp calls a tab
	origin string

	mu       sync.Mutex
	problems []string
	forgive  func(problem string) bool
}

func open(t *testing.T, r *rig, l look) *page {
	t.Helper()
	_, err := axeSource() // and the browser
	require.NoError(t, err)
	parent, err := browser()
	require.NoError(t, err)
	ctx, stop := chromedp.NewContext(parent)
	t.Cleanup(stop)
	p := &page{t: t, ctx: ctx, origin: "http://" + r.address}
	require.NoError(t, chromedp.Listen(ctx, p.watch))
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.phone,
	})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	p.do(chromedp.Navigate(p.origin + "/debug/kvsteer/"))
	return p
}

func call[P, R any](p *page, command cdp.Command[P, R], params P) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	_, err := chromedp.Call(ctx, command, params)
	require.NoError(p.t, err)
}

// watch collects everything that must not happen.
func (p *page) watch(ev any) {
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		p.blame("exception: " + e.ExceptionDetails.Text + saying(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if t := e.Type; t == runtime.ConsoleAPICalledTypeError || t == runtime.ConsoleAPICalledTypeWarning || t == runtime.ConsoleAPICalledTypeAssert {
			var words []string
			for _, a := range e.Args {
				words = append(words, saying(a))
			}
			p.blame("console: " + strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.blame("log: " + e.Entry.Text + " " + e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.origin+"/debug/kvsteer/") {
			p.blame("request elsewhere: " + e.Request.URL)
		}
	case *cdppage.EventJavascriptDialogOpening:
		p.blame("dialog: " + e.Message)
	}
}

func saying(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return " " + string(o.Value) + o.Description
}

func (p *page) blame(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forgive == nil || !p.forgive(what) {
		p.problems = append(p.problems, what)
	}
}

func (p *page) clean() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p.t, p.problems)
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	require.NoError(p.t, chromedp.Do(ctx, actions...))
}

// eval evaluates an expression, or what the promise that it is comes to.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression[:min(len(expression), 200)])
	return out
}

// until waits until an expression is true.
func (p *page) until(expression string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return eval[bool](p, "!!("+expression+")") }, patience, 50*time.Millisecond, expression)
}

func (p *page) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// view opens a view by its link.
func (p *page) view(name string) {
	p.t.Helper()
	p.click(`nav a[href="#/` + name + `"]`)
	p.until(`document.querySelector('nav a[aria-current=page]').hash === '#/` + name + `' && !document.getElementById('view-` + name + `').hidden`)
}

// accessible fails on anything that axe-core holds against the page.
func (p *page) accessible(where string) {
	p.t.Helper()
	source, err := axeSource()
	require.NoError(p.t, err)
	if !eval[bool](p, "typeof window.axe === 'object'") {
		eval[int](p, source+";0")
	}
	found := eval[[]struct {
		ID    string `json:"id"`
		Help  string `json:"help"`
		Nodes []struct {
			HTML    string `json:"html"`
			Summary string `json:"failureSummary"`
		} `json:"nodes"`
	}](p, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations)`)
	for _, v := range found {
		for _, n := range v.Nodes {
			p.t.Errorf("%s: axe %s: %s\n%s\n%s", where, v.ID, v.Help, n.HTML, n.Summary)
		}
	}
}

// fits fails if the page is wider than the window.
func (p *page) fits(where string) {
	p.t.Helper()
	got := eval[[]float64](p, `[document.scrollingElement.scrollWidth, innerWidth]`)
	require.LessOrEqual(p.t, got[0], got[1], "%s: the page scrolls sideways", where)
}

// shoot keeps a screenshot where KVSTEER_E2E_SHOTS says.
func (p *page) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("KVSTEER_E2E_SHOTS")
	if dir == "" {
		return
	}
	require.NoError(p.t, os.MkdirAll(dir, 0o750))
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
}

// state is state.json, as a script sees it.
func (p *page) state() map[string]any {
	p.t.Helper()
	text := eval[string](p, `fetch("state.json").then(r => r.text())`)
	var out map[string]any
	require.NoError(p.t, json.Unmarshal([]byte(text), &out))
	return out
}
