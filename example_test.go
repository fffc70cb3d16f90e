package kvsteer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// startEngine stands for an inference server, so that the examples need none.
func startEngine() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"Hello."}}]}`)
	})
	return httptest.NewServer(mux)
}

// parts are what a router stands on.
type parts struct {
	*fleet.Fleet

	encoder *prompt.Encoder
}

func (p parts) Close() error { return errors.Join(p.Fleet.Close(), p.encoder.Close()) }

// startRouter waits until the engine is known to be healthy. However slow the machine,
// what the engine says of a prompt is waited for.
func startRouter(engine *httptest.Server, opts ...kvsteer.Option) (*kvsteer.Router, parts) {
	workers, err := fleet.New(fleet.Options{
		Discoverer:     fleet.Static(fleet.Worker{Name: "gpu-0", URL: engine.URL, Models: []string{"qwen3"}}),
		ScrapeInterval: -1,
	})
	if err != nil {
		panic(err)
	}
	if err := workers.WaitReady(context.Background()); err != nil {
		panic(err)
	}
	encoder := prompt.NewEncoder(prompt.Options{Deadline: time.Minute})
	router, err := kvsteer.New(append([]kvsteer.Option{kvsteer.WithFleet(workers), kvsteer.WithEncoder(encoder)}, opts...)...)
	if err != nil {
		panic(err)
	}
	return router, parts{workers, encoder}
}

func chat(text string) *kvsteer.Request {
	return &kvsteer.Request{
		API:  kvsteer.ChatCompletions,
		Body: []byte(`{"model":"qwen3","messages":[{"role":"user","content":"` + text + `"}]}`),
	}
}

// A Router is driven by hand where requests don't pass an http.RoundTripper.
func ExampleNew() {
	engine := startEngine()
	defer engine.Close()
	router, workers := startRouter(engine)
	defer workers.Close()
	defer router.Close()

	sel, err := router.Select(context.Background(), chat("Hi"))
	if err != nil {
		fmt.Println(err)
		return
	}
	target := sel.Target()
	resp, err := http.Post(target.URL.String()+"/v1/chat/completions", "application/json", bytes.NewReader(sel.Body()))
	if err != nil {
		sel.Abort(err) // or sel.Next, to try another worker
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		sel.Abort(err)
		return
	}
	sel.Done(kvsteer.Usage{}) // with what the answer reports, if it does
	fmt.Println(target.Worker, resp.StatusCode, len(answer) > 0)
	// Output: gpu-0 200 true
}

// A Transport does all of that below any http.Client or httputil.ReverseProxy.
func ExampleNewTransport() {
	engine := startEngine()
	defer engine.Close()
	router, workers := startRouter(engine)
	defer workers.Close()
	defer router.Close()

	transport := kvsteer.NewTransport(router, kvsteer.TransportOptions{})
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	// The host does not matter: the Transport replaces it.
	resp, err := client.Post("http://kvsteer/v1/chat/completions", "application/json", bytes.NewReader(chat("Hi").Body))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

func ExampleWriteError() {
	engine := startEngine()
	defer engine.Close()
	router, workers := startRouter(engine)
	defer workers.Close()
	defer router.Close()

	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"gpt-x"}`))
	_, err := router.Select(r.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(`{"model":"gpt-x"}`)})
	kvsteer.WriteError(w, r, err)
	fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	// Output: 404 {"error":{"message":"no worker serves \"gpt-x\"; models served: qwen3","type":"not_found_error","param":null,"code":"unknown_model"}}
}

func ExampleRouter_Explain() {
	engine := startEngine()
	defer engine.Close()
	router, workers := startRouter(engine)
	defer workers.Close()
	defer router.Close()

	d, err := router.Explain(context.Background(), chat("Hi"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Winner().Name, "is", d.Winner().TrustState, "and would be chosen by the rule", d.Rule)
	for _, g := range d.Degradations {
		fmt.Println("!", g)
	}
	// Output:
	// gpu-0 is approximate and would be chosen by the rule default: lowest predicted TTFT
	// ! token ids not from render: endpoint not available
	// ! token ids not from tokenize: endpoint not available
	// ! cache approximate: the worker publishes no KV events
}

// failures counts requests that were not answered: one method is enough.
type failures struct{ n int }

func (f *failures) OnOutcome(o *kvsteer.Outcome) {
	if o.Err != nil {
		f.n++
	}
}

func ExampleWithHooks() {
	engine := startEngine()
	defer engine.Close()
	var failed failures
	router, workers := startRouter(engine, kvsteer.WithHooks(&failed))
	defer workers.Close()
	defer router.Close()

	sel, err := router.Select(context.Background(), chat("Hi"))
	if err != nil {
		fmt.Println(err)
		return
	}
	sel.Abort(errors.New("the client went away"))
	fmt.Println(failed.n)
	// Output: 1
}

// refusals counts requests that were turned down, by code.
type refusals struct {
	mu     sync.Mutex
	byCode map[kvsteer.Code]int
}

func (r *refusals) OnRefusal(f *kvsteer.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byCode[f.Err.Code]++ // never label metrics with f.Model: clients choose it
}

func ExampleHookRefusal() {
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close()
	seen := &refusals{byCode: map[kvsteer.Code]int{}}
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(seen))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	_, err = router.Select(context.Background(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte("no JSON")})
	fmt.Println(kvsteer.CodeOf(err))
	// What the gateway turns down before it asks the router is counted too.
	router.Refuse(&kvsteer.Refusal{Err: &kvsteer.Error{Code: kvsteer.CodeBadRequest, Message: "no such path"}})
	fmt.Println(seen.byCode[kvsteer.CodeBadRequest])
	// Output:
	// bad request
	// 2
}
