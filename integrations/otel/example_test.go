package kvsteerotel_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	kvsteerotel "github.com/kvsteer/kvsteer/integrations/otel"
)

// startEngine stands for an inference server, so that the examples need none.
func startEngine() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the engine gets a traceparent:", r.Header.Get("Traceparent") != "")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"Hello."}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
	})
	return httptest.NewServer(mux)
}

func startFleet(url string) *fleet.Fleet {
	workers, err := fleet.New(fleet.Options{
		Discoverer:     fleet.Static(fleet.Worker{Name: "gpu-0", URL: url, Models: []string{"qwen3"}}),
		ScrapeInterval: -1,
	})
	if err != nil {
		panic(err)
	}
	if err := workers.WaitReady(context.Background()); err != nil {
		panic(err)
	}
	return workers
}

func printSpans(spans tracetest.SpanStubs) {
	for _, s := range spans {
		fmt.Println(s.Name)
		for _, a := range s.Attributes {
			switch a.Key {
			case "kvsteer.worker", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens":
				fmt.Printf("  %s = %v\n", a.Key, a.Value.AsInterface())
			default:
			}
		}
	}
}

const question = `{"model":"qwen3","messages":[{"role":"user","content":"Hi"}]}`

func ExampleTracer_Transport() {
	engine := startEngine()
	defer engine.Close()
	workers := startFleet(engine.URL)
	defer workers.Close()

	// A program would export in the background, with a batching processor.
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	tracer := kvsteerotel.New(kvsteerotel.Options{TracerProvider: provider, Propagator: propagation.TraceContext{}, Fleet: workers})
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(tracer))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	client := &http.Client{Transport: tracer.Transport(router, kvsteer.TransportOptions{})}
	defer client.CloseIdleConnections()

	resp, err := client.Post("http://kvsteer/v1/chat/completions", "application/json", strings.NewReader(question))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	printSpans(kept.GetSpans())
	// Output:
	// the engine gets a traceparent: true
	// chat qwen3
	//   kvsteer.worker = gpu-0
	//   gen_ai.usage.input_tokens = 9
	//   gen_ai.usage.output_tokens = 3
}

func ExampleTracer_Select() {
	engine := startEngine()
	defer engine.Close()
	workers := startFleet(engine.URL)
	defer workers.Close()
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	tracer := kvsteerotel.New(kvsteerotel.Options{TracerProvider: provider, Propagator: propagation.TraceContext{}})
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(tracer))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()

	sel, err := tracer.Select(context.Background(), router, &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(question)})
	if err != nil {
		fmt.Println(err)
		return
	}
	req, err := http.NewRequestWithContext(sel.Context(), http.MethodPost, sel.Target().URL.String()+"/v1/chat/completions", bytes.NewReader(sel.Body()))
	if err != nil {
		sel.Abort(err)
		return
	}
	sel.Propagate(req.Header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		sel.Abort(err) // or sel.Next, to try another worker
		return
	}
	defer resp.Body.Close()
	answer := sel.Answer(resp.StatusCode, resp.Header)
	body, _ := io.ReadAll(resp.Body)
	answer.Pass(body)
	answer.End() // which ends the span, too
	printSpans(kept.GetSpans())
	// Output:
	// the engine gets a traceparent: true
	// chat qwen3
	//   kvsteer.worker = gpu-0
	//   gen_ai.usage.input_tokens = 9
	//   gen_ai.usage.output_tokens = 3
}
