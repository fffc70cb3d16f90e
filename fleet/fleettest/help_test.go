package fleettest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fast is a speed at which the default model answers within milliseconds.
const fast = 2000

// client is an HTTP client that leaves no connection behind.
func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// post sends a JSON request and returns status, headers and body.
func post(t *testing.T, c *http.Client, url string, body any, header ...string) (int, http.Header, []byte) {
	t.Helper()
	resp := open(t, c, url, body, header...)
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, raw
}

// open sends a JSON request and returns the response as it arrives. A string is
// sent as it is.
func open(t *testing.T, c *http.Client, url string, body any, header ...string) *http.Response {
	t.Helper()
	raw, ok := body.(string)
	if !ok {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		raw = string(b)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// get returns status and body.
func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// sseEvents splits a stream into the data of its events, and their names.
func sseEvents(t *testing.T, raw []byte) (data []map[string]any, names []string, done bool) {
	t.Helper()
	name := ""
	scan := bufio.NewScanner(bytes.NewReader(raw))
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		line := scan.Text()
		if after, ok := strings.CutPrefix(line, "event: "); ok {
			name = after
			continue
		}
		after, ok := strings.CutPrefix(line, "data: ")
		switch {
		case !ok && line != "":
			t.Fatalf("unexpected line %q in a stream", line)
		case !ok:
		case after == "[DONE]":
			done = true
		default:
			var v map[string]any
			if err := json.Unmarshal([]byte(after), &v); err != nil {
				t.Fatalf("event %q: %v", after, err)
			}
			data, names, name = append(data, v), append(names, name), ""
		}
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return data, names, done
}

// dig walks a decoded JSON value by keys and indices.
func dig(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("no object at %v of %v", s, path)
			}
			v = m[s]
		case int:
			l, ok := v.([]any)
			if !ok || s >= len(l) {
				t.Fatalf("no element %v of %v", s, path)
			}
			v = l[s]
		}
	}
	return v
}

func decode(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	return v
}

func number(t *testing.T, v any, path ...any) int {
	t.Helper()
	f, ok := dig(t, v, path...).(float64)
	if !ok {
		t.Fatalf("no number at %v of %v", path, v)
	}
	return int(f)
}

// user is a chat request of one message.
func user(text string, more ...any) map[string]any {
	m := map[string]any{
		"model":    DefaultModel,
		"messages": []any{map[string]any{"role": "user", "content": text}},
	}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
