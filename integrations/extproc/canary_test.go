package extproc_test

import (
	"context"
	"fmt"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/integrations/extproc"
	"github.com/kvsteer/kvsteer/internal/canary"
)

// What clients and workers send through the server comes out in no log at any level, in no
// refusal, no error of a stream and no outcome: not when all is well, nor when bodies are
// broken, answers are errors, or Envoy leaves in the middle or says what it should not.
func TestCanary(t *testing.T) {
	c := canary.New(t)
	r := newRig(t, rigConfig{
		engines: 1, extproc: extproc.Options{Logger: c.Logger()}, options: []kvsteer.Option{kvsteer.WithLogger(c.Logger())},
	})
	const path = "/v1/chat/completions"
	said := func(text string, stream bool) string {
		return fmt.Sprintf(`{"model":"m","stream":%v,"user":%q,"messages":[{"role":"user","content":%q}]}`, stream, c.In("user"), text)
	}
	bodies := []string{
		said(c.In("prompt"), true), said(c.In("prompt"), false), said(c.In("cut"), true)[:60], c.In("nojson"),
		`{"model":["` + c.In("model") + `"]}`, `{"model":"m","messages":"` + c.In("messages") + `"}`, said("a", false) + c.In("behind"),
		`{"model":"m","` + c.In("badkey") + `":nul}`,
	}
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"" + c.In("answer") + "\"}}]}\n\n"
	answers := map[string][]*extprocv3.ProcessingRequest{
		"well":       {answerHeaders("200", "text/event-stream", false), answerBody(event+usageEvent+doneEvent, true)},
		"whole":      {answerHeaders("200", "application/json", false), answerBody(`{"choices":[{"message":{"content":"`+c.In("answer")+`"}}]}`, true)},
		"broken":     {answerHeaders("200", "application/json", false), answerBody(`{"choices":`+c.In("answer"), true)},
		"no events":  {answerHeaders("200", "text/event-stream", false), answerBody("data: "+c.In("answer")+"\n\n", true)},
		"an error":   {answerHeaders("500", "text/plain", false), answerBody(c.In("error"), true)},
		"refused":    {answerHeaders("400", "application/json", false), answerBody(`{"error":{"message":"`+c.In("error")+`"}}`, true)},
		"odd status": {answerHeaders(c.In("status"), c.In("type"), false), answerBody(c.In("error"), true)},
		"midway":     {answerHeaders("200", "text/event-stream", false), answerBody(event, false)},
		"nothing":    nil,
		"disorder":   {answerBody(c.In("answer"), false), requestBody(c.In("again"), true), requestHeaders("POST", path, false, "x", c.In("x"))},
	}
	refused, routed := 0, 0
	for name, answer := range answers {
		for i, body := range bodies {
			mode := duplex
			if i%2 == 1 {
				mode = buffered
			}
			p := r.open(mode, streamed)
			list := append([]*extprocv3.ProcessingRequest{
				requestHeaders("POST", path, false, "authorization", "Bearer "+c.In("bearer"), "x-api-key", c.In("key"), "cookie", c.In("cookie"),
					"x-session-id", c.In("session"), "x-gateway-destination-endpoint", c.In("destination")),
				requestBody(body, true),
			}, answer...)
			for _, m := range list {
				if !p.began {
					m.ProtocolConfig, p.began = p.config, true
				}
				if p.stream.Send(m) != nil {
					break // it has ended: Recv says how
				}
			}
			require.NoError(t, p.stream.CloseSend())
			for {
				m, err := p.stream.Recv()
				if err != nil {
					c.Error("the end of a stream", err)
					break
				}
				if d := m.GetImmediateResponse(); d != nil {
					refused++
					c.Text("a refusal: "+name, d.String())
				} else {
					routed++
				}
			}
		}
	}
	require.Positive(t, refused)
	require.Positive(t, routed)
	p := r.open(duplex, streamed)
	p.send(requestHeaders("POST", path+"?"+c.In("query"), false, "authorization", c.In("bearer")))
	p.send(requestBody(said(c.In("prompt"), true), true))
	p.routed(duplex, true)
	p.cancel() // Envoy is gone
	r.idle()
	r.seen.mu.Lock()
	for _, o := range r.seen.all {
		c.Error("an outcome", o.Err)
		c.JSON("an outcome", o.Usage)
	}
	r.seen.mu.Unlock()
	c.Error("a server that stops", r.stop())
	c.Error("a choice", func() error {
		_, err := r.router.Select(context.WithoutCancel(t.Context()), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(c.In("nojson"))})
		return err
	}())
	require.Positive(t, c.Lines(), "something was logged")
}
