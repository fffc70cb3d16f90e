package extproc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/integrations/extproc"
)

const (
	wait = 30 * time.Second
	tick = time.Millisecond

	duplex   = procv3.ProcessingMode_FULL_DUPLEX_STREAMED
	buffered = procv3.ProcessingMode_BUFFERED
	streamed = procv3.ProcessingMode_STREAMED
	none     = procv3.ProcessingMode_NONE
)

// rig is a fleet, a router and a server on gRPC; tests play Envoy.
type rig struct {
	t       testing.TB
	engines []*fleettest.Engine
	fleet   *fleet.Fleet
	router  *kvsteer.Router
	conn    *grpc.ClientConn
	stop    func() error
	seen    *outcomes
}

type rigConfig struct {
	engines int
	extproc extproc.Options
	serve   extproc.ServeOptions
	options []kvsteer.Option
	host    string                // in place of 127.0.0.1 in the workers' URLs
	server  func(*extproc.Server) // sees the server before it serves
}

type outcomes struct {
	mu    sync.Mutex
	begun int // decided
	ended int // of these
	all   []*kvsteer.Outcome
}

func (o *outcomes) OnDecision(d *kvsteer.Decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.Attempt == 1 {
		o.begun++
	}
}

func (o *outcomes) OnRejection(*kvsteer.Decision, *kvsteer.Error) {}

func (o *outcomes) OnOutcome(c *kvsteer.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, c)
	if c.Decision != nil {
		o.ended++
	}
}

// told reports whether all that has ended was told: that is a moment after nothing is in
// flight.
func (o *outcomes) told() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended == o.begun
}

func (o *outcomes) last(t testing.TB) *kvsteer.Outcome {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	require.NotEmpty(t, o.all)
	return o.all[len(o.all)-1]
}

func newRig(t testing.TB, c rigConfig) *rig {
	t.Helper()
	r := &rig{t: t, seen: &outcomes{}}
	if c.engines == 0 {
		c.engines = 3
	}
	var workers []fleet.Worker
	for i := range c.engines {
		e := fleettest.New(t, fleettest.Config{Name: fmt.Sprintf("w%d", i), Model: "m", Speed: 1000})
		r.engines = append(r.engines, e)
		w := e.Worker()
		if c.host != "" {
			w.URL = strings.Replace(w.URL, "127.0.0.1", c.host, 1)
		}
		workers = append(workers, w)
	}
	var err error
	r.fleet, err = fleet.New(fleet.Options{
		Discoverer: fleet.Static(workers...), ProbeInterval: 100 * time.Millisecond, ProbeTimeout: 20 * time.Second, UnhealthyAfter: 1 << 20,
	})
	require.NoError(t, err)
	r.router, err = kvsteer.New(append([]kvsteer.Option{
		kvsteer.WithFleet(r.fleet), kvsteer.WithSeed(1), kvsteer.WithHooks(r.seen), kvsteer.WithMaxBody(12 << 20),
	}, c.options...)...)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.fleet.Snapshot().Routable() == c.engines }, wait, tick)

	l := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	if c.serve.Notice == 0 {
		c.serve.Notice = -1
	}
	srv := extproc.New(r.router, c.extproc)
	if c.server != nil {
		c.server(srv)
	}
	go func() { served <- srv.Serve(ctx, l, c.serve) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-served })
	r.conn, err = grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = r.conn.Close()
		_ = r.stop() // tests of stopping look at its error
		require.NoError(t, r.router.Close())
		require.NoError(t, r.fleet.Close())
		require.Zero(t, r.router.InFlight())
	})
	return r
}

// idle checks that nothing is in flight anywhere, and waits until that was told.
func (r *rig) idle() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.inFlight() == 0 }, wait, tick, "in flight is zero")
	require.Eventually(r.t, r.seen.told, wait, tick, "each has an outcome")
}

func (r *rig) inFlight() int {
	n := r.router.InFlight()
	for _, m := range r.fleet.Snapshot().Members() {
		n += m.InFlight(0).Requests
	}
	return n
}

// proxy is Envoy's side of one stream.
type proxy struct {
	t      testing.TB
	stream extprocv3.ExternalProcessor_ProcessClient
	cancel context.CancelFunc
	config *extprocv3.ProtocolConfiguration
	began  bool
}

func (r *rig) open(request, answer procv3.ProcessingMode_BodySendMode) *proxy {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // a test that hangs fails
	r.t.Cleanup(cancel)
	stream, err := extprocv3.NewExternalProcessorClient(r.conn).Process(ctx)
	require.NoError(r.t, err)
	return &proxy{t: r.t, stream: stream, cancel: cancel, config: &extprocv3.ProtocolConfiguration{RequestBodyMode: request, ResponseBodyMode: answer}}
}

func (p *proxy) send(m *extprocv3.ProcessingRequest) {
	p.t.Helper()
	if !p.began {
		m.ProtocolConfig, p.began = p.config, true
	}
	require.NoError(p.t, p.stream.Send(m))
}

func (p *proxy) receive() *extprocv3.ProcessingResponse {
	p.t.Helper()
	m, err := p.stream.Recv()
	require.NoError(p.t, err)
	return m
}

// ended is how the stream ends, nil if well.
func (p *proxy) ended() error {
	p.t.Helper()
	_, err := p.stream.Recv()
	require.Error(p.t, err, "the stream has ended")
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func headerMap(pairs ...string) *corev3.HeaderMap {
	h := &corev3.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		h.Headers = append(h.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return h
}

func requestHeaders(method, path string, end bool, more ...string) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
		Headers:     headerMap(append([]string{":method", method, ":path", path, ":authority", "gateway", "content-type", "application/json"}, more...)...),
		EndOfStream: end,
	}}}
}

func requestBody(body string, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte(body), EndOfStream: end}}}
}

func requestTrailers() *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{Trailers: headerMap("x", "y")}}}
}

func answerHeaders(status, kind string, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
		Headers: headerMap(":status", status, "content-type", kind), EndOfStream: end,
	}}}
}

func answerBody(body string, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{Body: []byte(body), EndOfStream: end}}}
}

func answerTrailers() *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{Trailers: headerMap("x", "y")}}}
}

func with(m *extprocv3.ProcessingRequest, namespace, key string, v *structpb.Value) *extprocv3.ProcessingRequest {
	m.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		namespace: {Fields: map[string]*structpb.Value{key: v}},
	}}
	return m
}

func chat(stream bool) string {
	return fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"one two three"}]}`, stream)
}

const (
	firstEvent = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	usageEvent = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n"
	doneEvent  = "data: [DONE]\n\n"
)

// route is what a server said of where a request goes.
type route struct {
	list   string
	header map[string]string
	remove []string
	body   string
	ended  bool
}

func (rt route) endpoints() []string { return strings.Split(rt.list, ",") }

// routed reads the decision and the body behind it.
func (p *proxy) routed(mode procv3.ProcessingMode_BodySendMode, body bool) route {
	p.t.Helper()
	m := p.receive()
	require.Nil(p.t, m.GetImmediateResponse(), "%v", m)
	common := m.GetRequestHeaders().GetResponse()
	if mode == buffered && body {
		common = m.GetRequestBody().GetResponse()
	}
	require.NotNil(p.t, common, "%v", m)
	rt := route{header: map[string]string{}, remove: common.GetHeaderMutation().GetRemoveHeaders()}
	for _, h := range common.GetHeaderMutation().GetSetHeaders() {
		rt.header[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
	}
	rt.list = m.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()[extproc.HeaderDestination].GetStringValue()
	require.NotEmpty(p.t, rt.list)
	require.Equal(p.t, rt.header[extproc.HeaderDestination], rt.list, "header and metadata are alike")
	if mode == buffered {
		rt.body = string(common.GetBodyMutation().GetBody())
	}
	for mode == duplex && body && !rt.ended {
		chunk := p.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		require.NotNil(p.t, chunk)
		require.LessOrEqual(p.t, len(chunk.GetBody()), 64<<10)
		rt.body += string(chunk.GetBody())
		rt.ended = chunk.GetEndOfStream()
	}
	return rt
}

type denial struct {
	status int
	header http.Header
	body   string
}

func (p *proxy) denied() denial {
	p.t.Helper()
	m := p.receive().GetImmediateResponse()
	require.NotNil(p.t, m)
	d := denial{status: int(m.GetStatus().GetCode()), header: http.Header{}, body: string(m.GetBody())}
	for _, h := range m.GetHeaders().GetSetHeaders() {
		d.header.Set(h.GetHeader().GetKey(), string(h.GetHeader().GetRawValue()))
	}
	require.NotEqual(p.t, http.StatusInternalServerError, d.status)
	return d
}

// host is the endpoint of a worker.
func (r *rig) host(name string) string { return r.fleet.Snapshot().Member(name).URL().Host }

func (r *rig) name(host string) string {
	for _, m := range r.fleet.Snapshot().Members() {
		if m.URL().Host == host {
			return m.Name()
		}
	}
	return ""
}
