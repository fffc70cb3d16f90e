package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 8 << 20
	// look is how often something that comes by itself is looked at.
	look = 10 * time.Millisecond
)

// patient is one worker and what is known of it so far. It belongs to one
// goroutine.
type patient struct {
	opts   *Options
	worker fleet.Worker
	client *http.Client
	fleet  *fleet.Fleet
	files  *fileSet

	// member is what the router's own watch knows; nil only if time ran out.
	member *fleet.Member
	// reachable: it gave some answer over HTTP. rtt and skew come with the first.
	reachable bool
	first     answer

	engine  fleet.Engine
	version string
	info    serverInfo
	sources sources      // where the engine says that its events are
	metrics *metricsPage // nil if there are none
	proven  map[string]bool
	encoder *prompt.Encoder // nil until prompts are needed
	streams *streams        // nil without events

	found findings
}

func newPatient(o *Options, w *fleet.Worker, c *http.Client, f *fleet.Fleet, files *fileSet) *patient {
	return &patient{
		opts: o, worker: w.Clone(), client: c, fleet: f, files: files,
		engine: w.Engine, proven: map[string]bool{},
	}
}

// settle waits until the fleet has looked at the worker once.
func (p *patient) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*p.opts.ask())
	defer cancel()
	wait(ctx, func() bool {
		p.member = p.fleet.Snapshot().Member(p.worker.Name)
		return p.member != nil && p.member.Health().State != fleet.StatePending
	})
	if p.member == nil {
		return
	}
	p.worker = p.member.Worker().Clone() // ranks of endpoints filled in
	if p.member.Healthy() {
		// Its metrics are read right after that, which may tell what engine it is and
		// whether it sleeps.
		wait(ctx, func() bool {
			return p.member.Load() != nil || len(p.member.Health().Problems) > 0 || p.member.Engine() == fleet.EngineOther
		})
	}
	p.engine = p.member.Engine()
}

func (p *patient) close() {
	if p.streams != nil {
		p.streams.close()
	}
	if p.encoder != nil {
		_ = p.encoder.Close() // always nil
	}
}

// wait looks again and again until done says yes or ctx ends.
func wait(ctx context.Context, done func() bool) bool {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// answer is what came back for a question.
type answer struct {
	status    int
	header    http.Header
	body      []byte
	sent, got time.Time
}

func (a *answer) ok() bool { return a.status/100 == 2 }

// absent: the engine has no such endpoint.
func (a *answer) absent() bool {
	return a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed
}

// refused: it wants another key, or one at all.
func (a *answer) refused() bool {
	return a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
}

// ask puts a question to the worker.
func (p *patient) ask(ctx context.Context, method, path string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.ask())
	defer cancel()
	a := answer{sent: p.opts.Now()}
	resp, err := p.send(ctx, method, path, nil, nil)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.got, a.status, a.header = p.opts.Now(), resp.StatusCode, resp.Header
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return a, brief(ctx, err)
}

// send sends a request; the answer's body is the caller's.
func (p *patient) send(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.worker.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, brief(ctx, err)
	}
	maps.Copy(req.Header, header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	authorise(req.Header, p.opts.Key)
	resp, err := p.client.Do(req)
	return resp, brief(ctx, err)
}

// get asks for JSON and reports whether it came.
func (p *patient) get(ctx context.Context, path string, into any) bool {
	a, err := p.ask(ctx, http.MethodGet, path)
	return err == nil && a.ok() && json.Unmarshal(a.body, into) == nil
}

// brief strips an error of what the reader knows already: the request, its URL, the
// sockets' addresses.
func brief(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var lookup *net.DNSError
	if errors.As(err, &lookup) {
		return fmt.Errorf("the name %s can't be resolved: %s", lookup.Name, lookup.Err)
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the connection was closed without an answer")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "net/http: "))
}
