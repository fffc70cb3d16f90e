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
	"time"

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

// A gateway that sends by itself goes on to the next worker while nothing has reached its
// client, and the fleet hears of the failure.
func ExampleSelection_Next() {
	var started []*fleettest.Engine
	var described []fleet.Worker
	for _, name := range []string{"gpu-0", "gpu-1"} {
		engine, err := fleettest.Start(fleettest.Config{Name: name, Model: "m", Speed: 1000})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer engine.Close() //nolint:gocritic // two of them
		started, described = append(started, engine), append(described, engine.Worker())
	}
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static(described...)})
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
	for workers.Snapshot().Routable() < len(described) {
		time.Sleep(time.Millisecond)
	}

	sel, err := router.Select(ctx, &kvsteer.Request{
		API: kvsteer.ChatCompletions, Body: []byte(`{"model":"m","messages":[{"role":"user","content":"Hello"}]}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sel.Abort(nil)
	for _, engine := range started {
		if engine.Name() == sel.Target().Worker {
			engine.Faults().Fail(1, http.StatusServiceUnavailable, 0)
		}
	}
	for {
		resp, cause := sendOnce(ctx, sel.Target(), sel.Body())
		if cause == nil {
			_ = resp.Body.Close() // here Selection.Answer would read it
			if resp.StatusCode < http.StatusInternalServerError && resp.StatusCode != http.StatusTooManyRequests {
				break
			}
			cause = kvsteer.StatusError(resp.StatusCode)
		}
		fmt.Println(cause)
		if err := sel.Next(ctx, cause); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("answered at attempt", sel.Decision().Attempt)
	// Output:
	// the worker answered Service Unavailable
	// answered at attempt 2
}

func sendOnce(ctx context.Context, to kvsteer.Target, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL.String()+kvsteer.ChatCompletions.Path(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, to.Header)
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}
