package providertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Dialect is whose service is faked.
type Dialect uint8

// The dialects.
const (
	OpenAI Dialect = iota
	AzureOpenAI
	Gemini
	Anthropic
)

// String names the dialect.
func (d Dialect) String() string {
	names := [...]string{"OpenAI", "Azure OpenAI", "Gemini", "Anthropic"}
	if int(d) < len(names) {
		return names[d]
	}
	return "unknown"
}

// Options are for [New] and [Start]. The zero value is fine.
type Options struct {
	// Key is the credential that requests must present, in the dialect's header. "": none.
	Key string
	// Models are those that there are; of Azure, deployments. Nil: whatever is asked for.
	Models []string
	// Prefix is in place of /v1 in OpenAI's paths.
	Prefix string
	// Limit is how many requests pass. The zero Limit is none.
	Limit Limit
	// Reply answers when the script is at its end. It may be called by several goroutines
	// at once. Nil: a greeting.
	Reply func(*Request) Answer
	// Alternate refuses neighbouring messages of one role, as Anthropic did at first and
	// some who offer its API still do. The service itself merges them today.
	Alternate bool
	// MaxBody bounds the bodies of requests, in bytes. Default 32 MiB.
	MaxBody int64
	// Listener is where to serve. Nil: a loopback port. The server closes it.
	Listener net.Listener
	// URL is what [Server.URL] says of a Listener whose address is no host and port.
	URL string
}

// Server is a running fake. Its methods are safe for concurrent use.
type Server struct {
	dialect Dialect
	opts    Options
	url     string
	http    *http.Server
	served  chan struct{}
	closing chan struct{}
	once    sync.Once
	working sync.WaitGroup

	mu       sync.Mutex
	key      string
	script   []Answer
	requests []*Request
	numbers  int // of ids
	inFlight int
	most     int
	ended    bool
	meter    meter
	store    store
}

const defaultMaxBody = 32 << 20

// Start starts a server. Close ends it.
func Start(d Dialect, o Options) (*Server, error) {
	switch {
	case d > Anthropic:
		return nil, fmt.Errorf("providertest: there is no dialect %d", d)
	case o.Prefix != "" && !strings.HasPrefix(o.Prefix, "/"):
		return nil, fmt.Errorf("providertest: Options.Prefix is %q; begin it with a slash", o.Prefix)
	case o.Limit.Requests < 0 || o.Limit.Tokens < 0 || o.Limit.Per < 0 || o.MaxBody < 0:
		return nil, errors.New("providertest: a limit is negative")
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	ln := o.Listener
	if ln == nil {
		var err error
		if ln, err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("providertest: listen: %w", err)
		}
	}
	s := &Server{dialect: d, opts: o, key: o.Key, url: o.URL, served: make(chan struct{}), closing: make(chan struct{})}
	if s.url == "" {
		s.url = "http://" + ln.Addr().String()
	}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(ln) // ends with Close
	}()
	return s, nil
}

// New starts a server that is closed when the test ends.
func New(tb testing.TB, d Dialect, o Options) *Server {
	tb.Helper()
	s, err := Start(d, o)
	if err != nil {
		tb.Fatalf("start a fake of %v: %v", d, err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close a fake of %v: %v", d, err)
		}
	})
	return s
}

// URL is where the server is: scheme and host, without a path.
func (s *Server) URL() string { return s.url }

// BaseURL is what an official SDK takes as its base.
func (s *Server) BaseURL() string {
	switch s.dialect {
	case AzureOpenAI:
		return s.url + azureV1
	case Gemini:
		return s.url + geminiBase
	case OpenAI:
		return s.url + s.prefix()
	default:
		return s.url
	}
}

func (s *Server) prefix() string {
	if s.opts.Prefix != "" {
		return strings.TrimSuffix(s.opts.Prefix, "/")
	}
	return "/v1"
}

// Script appends answers to the script.
func (s *Server) Script(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, answers...)
}

// Left is how many answers of the script nobody has had yet.
func (s *Server) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.script)
}

// SetKey changes the credential that requests must present.
func (s *Server) SetKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// SetLimit changes how many requests pass, and begins to count anew.
func (s *Server) SetLimit(l Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Limit, s.meter = l, meter{}
}

// InFlight is how many requests are being answered, and the most there were at once.
func (s *Server) InFlight() (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight, s.most
}

// Close cuts all connections and waits until no request is being answered. Further
// calls do nothing.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.mu.Lock()
		s.ended = true
		s.mu.Unlock()
		close(s.closing)
		err = s.http.Close()
	})
	<-s.served
	s.working.Wait()
	return err
}

// enter counts a request, unless the server is closed: nothing is added to a WaitGroup
// that is waited for.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.working.Add(1)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
	s.working.Done()
}

// next takes an answer from the script.
func (s *Server) next(r *Request) Answer {
	s.mu.Lock()
	if len(s.script) > 0 {
		a := s.script[0]
		s.script = s.script[1:]
		s.mu.Unlock()
		return a
	}
	s.mu.Unlock()
	if s.opts.Reply != nil {
		return s.opts.Reply(r)
	}
	text := "Hello there."
	if r.Images > 0 {
		text = fmt.Sprintf("Hello there. I see %d images.", r.Images)
	}
	return Answer{Text: text}
}

// number is a new one, for an id.
func (s *Server) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers++
	return s.numbers
}

// wait sleeps. It is false if the client left, or the server is closed, before.
func (s *Server) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.closing:
	}
	return false
}

// hang waits until the client leaves or the server is closed.
func (s *Server) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.closing:
	}
}
