// Package bedrocktest has a fake of Amazon Bedrock's runtime, for tests: Converse and
// ConverseStream with scripted answers, signatures checked by AWS's own signer, and event
// streams written by the SDK's encoder.
package bedrocktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Options are who may ask. The zero Options take the keys and the region of Default.
type Options struct {
	// Region and Credentials are what requests must be signed for and with.
	Region      string
	Credentials aws.Credentials
	// APIKey is taken in place of a signature; "" takes none.
	APIKey string
}

// DefaultRegion and DefaultCredentials are those of the zero Options. They open nothing.
const DefaultRegion = "eu-central-1"

// DefaultCredentials returns the keys of the zero Options.
func DefaultCredentials() aws.Credentials {
	return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "example-secret", SessionToken: "example-session"}
}

// Server is a fake of Bedrock. It is safe for concurrent use, and is closed at the end of
// the test.
type Server struct {
	o    Options
	http *httptest.Server

	mu       sync.Mutex
	answers  []Answer
	requests []Request
}

// Request is one that came.
type Request struct {
	// Model is the id in the path, RawPath the path as it was sent.
	Model, RawPath string
	Stream         bool
	Header         http.Header
	Body           []byte
}

// New starts a server. Its answers are taken one by one; when there are none left, it
// answers with a text.
func New(t testing.TB, o Options, answers ...Answer) *Server {
	t.Helper()
	if o.Region == "" {
		o.Region = DefaultRegion
	}
	if !o.Credentials.HasKeys() {
		o.Credentials = DefaultCredentials()
	}
	s := &Server{o: o, answers: answers}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	return s
}

// URL is what a Provider's URL, and the SDK's BaseEndpoint, are to be.
func (s *Server) URL() string { return s.http.URL }

// Add appends answers.
func (s *Server) Add(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

// Requests returns those that came and were let in.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Last is the last of Requests, the zero Request for none.
func (s *Server) Last() Request {
	all := s.Requests()
	if len(all) == 0 {
		return Request{}
	}
	return all[len(all)-1]
}

// most is the longest body that is taken, in bytes.
const most = 25 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		return // the client left
	}
	model, stream, ok := operation(r.URL.Path)
	switch {
	case !ok || r.Method != http.MethodPost:
		writeError(w, &Error{Status: http.StatusNotFound, Type: "UnknownOperationException"})
		return
	case strings.Contains(strings.TrimPrefix(rawModel(r.URL.EscapedPath()), "/"), "/"):
		writeError(w, &Error{
			Status: http.StatusNotFound, Type: "UnknownOperationException", Message: "the model's id must be one segment of the path",
		})
		return
	}
	if e := s.authorized(r, body); e != nil {
		writeError(w, e)
		return
	}
	if e := check(body); e != nil {
		writeError(w, e)
		return
	}
	a := s.next(&Request{Model: model, RawPath: r.URL.EscapedPath(), Stream: stream, Header: r.Header.Clone(), Body: body})
	if a.Delay > 0 {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(a.Delay):
		}
	}
	switch {
	case a.Error != nil:
		writeError(w, a.Error)
	case stream:
		a.stream(w, r)
	default:
		a.whole(w)
	}
}

// operation reads /model/ID/converse and /model/ID/converse-stream.
func operation(path string) (model string, stream, ok bool) {
	rest, ok := strings.CutPrefix(path, "/model/")
	if !ok {
		return "", false, false
	}
	if model, ok = strings.CutSuffix(rest, "/converse-stream"); ok {
		return model, true, model != ""
	}
	model, ok = strings.CutSuffix(rest, "/converse")
	return model, false, ok && model != ""
}

func rawModel(path string) string {
	path = strings.TrimPrefix(path, "/model/")
	return strings.TrimSuffix(strings.TrimSuffix(path, "/converse-stream"), "/converse")
}

func (s *Server) next(r *Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, *r)
	if len(s.answers) == 0 {
		return Answer{Text: "Hello."}
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a
}

// Error is an error as the service has it.
type Error struct {
	Status int
	// Type is the name of the exception, such as "ThrottlingException".
	Type, Message string
	// RetryAfter is a header, "" for none.
	RetryAfter string
}

func writeError(w http.ResponseWriter, e *Error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", e.Type+":http://internal.amazon.com/coral/com.amazon.bedrock/")
	if e.RetryAfter != "" {
		w.Header().Set("Retry-After", e.RetryAfter)
	}
	w.WriteHeader(e.Status)
	text, _ := json.Marshal(map[string]string{"message": e.Message}) // strings can be marshalled
	_, _ = w.Write(text)
}

func invalid(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: "ValidationException", Message: fmt.Sprintf(format, args...)}
}

// block is an object of which not all is read.
type block = map[string]json.RawMessage

// check refuses what the service would.
func check(body []byte) *Error {
	var in struct {
		Messages []struct {
			Role    string  `json:"role"`
			Content []block `json:"content"`
		} `json:"messages"`
		System          []block `json:"system"`
		InferenceConfig block   `json:"inferenceConfig"`
		ToolConfig      *struct {
			Tools      []block `json:"tools"`
			ToolChoice block   `json:"toolChoice"`
		} `json:"toolConfig"`
		OutputConfig block           `json:"outputConfig"`
		ServiceTier  block           `json:"serviceTier"`
		Additional   json.RawMessage `json:"additionalModelRequestFields"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return &Error{Status: http.StatusBadRequest, Type: "SerializationException", Message: "the body can't be read"}
	}
	if len(in.Messages) == 0 {
		return invalid("The messages field must not be empty.")
	}
	for i, m := range in.Messages {
		want := "user"
		if i%2 == 1 {
			want = "assistant"
		}
		switch {
		case i == 0 && m.Role != want:
			return invalid("A conversation must start with a user message.")
		case m.Role != want:
			return invalid("A conversation must alternate between user and assistant roles.")
		case len(m.Content) == 0:
			return invalid("The content field in the Message object at messages.%d is empty.", i)
		}
		for k, b := range m.Content {
			if e := checkBlock(b, fmt.Sprintf("messages.%d.content.%d", i, k)); e != nil {
				return e
			}
			if (b["toolUse"] != nil || b["toolResult"] != nil) && in.ToolConfig == nil {
				return invalid("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
			}
		}
	}
	for i, b := range in.System {
		if e := checkBlock(b, fmt.Sprintf("system.%d", i)); e != nil {
			return e
		}
	}
	if in.ToolConfig != nil && len(in.ToolConfig.Tools) == 0 {
		return invalid("The tools field in toolConfig must not be empty.")
	}
	return nil
}

func checkBlock(b block, at string) *Error {
	if len(b) != 1 {
		return invalid("The ContentBlock object at %s must set one of its members.", at)
	}
	if raw := b["text"]; raw != nil {
		var text string
		if json.Unmarshal(raw, &text) != nil || strings.TrimSpace(text) == "" {
			return invalid("The text field in the ContentBlock object at %s is blank. Add text to the text field, and try again.", at)
		}
	}
	if raw := b["toolUse"]; raw != nil {
		var call struct {
			ToolUseID string `json:"toolUseId"`
			Name      string `json:"name"`
			Input     block  `json:"input"`
		}
		if json.Unmarshal(raw, &call) != nil || call.ToolUseID == "" || call.Name == "" || call.Input == nil {
			return invalid("The toolUse block at %s is malformed.", at)
		}
	}
	return nil
}
