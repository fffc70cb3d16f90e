package kvsteer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// A gateway that sends requests itself: it selects, sends, and gives what comes back to
// an Answer, which knows when the request is over.
func ExampleSelection_Answer() {
	engine, err := fleettest.Start(fleettest.Config{Name: "gpu-0", Model: "m", Speed: 1000, OutputTokens: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static(engine.Worker())})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close()
	router, err := kvsteer.New(kvsteer.WithFleet(workers))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	ctx := context.Background()
	if err := workers.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}

	send := func(client io.Writer, body []byte) error {
		sel, err := router.Select(ctx, &kvsteer.Request{API: kvsteer.ChatCompletions, Body: body})
		if err != nil {
			return err
		}
		defer sel.Abort(nil) // does nothing once the Answer has ended
		req, err := http.NewRequestWithContext(ctx, http.MethodPost,
			sel.Target().URL.String()+kvsteer.ChatCompletions.Path(), bytes.NewReader(sel.BodyWithUsage()))
		if err != nil {
			return err
		}
		maps.Copy(req.Header, sel.Target().Header) // such as the rank behind a worker's port
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer := sel.Answer(resp.StatusCode, resp.Header)
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			if _, gone := client.Write(answer.Pass(buf[:n])); gone != nil {
				answer.Break(context.Canceled)
				return gone
			}
			if errors.Is(err, io.EOF) {
				_, err = client.Write(answer.End())
				return err
			}
			if err != nil {
				answer.Break(err)
				return err
			}
		}
	}
	var client strings.Builder
	err = send(&client, []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}`))
	fmt.Println(err, strings.Contains(client.String(), "[DONE]"), router.InFlight())
	// Output: <nil> true 0
}
