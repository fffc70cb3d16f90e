package extproc_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// local resolves who comes from 192.0.2.7 by a header.
type local struct{}

func (local) Resolve(_ context.Context, p *tenancy.Presented) (*tenancy.Identity, error) {
	if p.Remote.Addr() != netip.MustParseAddr("192.0.2.7") {
		return tenancy.Anonymous(), nil
	}
	return &tenancy.Identity{Tenant: p.Header.Get("X-Tenant"), By: "peer", Spent: []string{"X-Tenant"}}, nil
}

// Whom the router identifies is limited, no key goes on to a worker, and answers say how
// the limits stand.
func TestTenancy(t *testing.T) {
	limits, err := quota.New(quota.Options{Rules: []quota.Rule{{
		Name: "two", Scope: quota.PerTenant, Requests: quota.Rate{Amount: 2, Per: 500 * time.Hour},
	}}})
	require.NoError(t, err)
	r := newRig(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: local{}, Limits: limits, RefuseAnonymous: true}),
	}})
	from := func(address, path string) *proxy {
		p := r.open(duplex, duplex)
		m := requestHeaders("POST", path, false, "x-tenant", "alice")
		attributes, err := structpb.NewStruct(map[string]any{"source.address": address})
		require.NoError(t, err)
		m.Attributes = map[string]*structpb.Struct{"envoy.filters.http.ext_proc": attributes}
		p.send(m)
		p.send(requestBody(chat(true), true))
		return p
	}
	p := from("192.0.2.8:1234", "/v1/chat/completions")
	require.EqualValues(t, 401, p.receive().GetImmediateResponse().GetStatus().GetCode())
	for _, path := range []string{"/v1/chat/completions", "/v1/rerank"} {
		p = from("192.0.2.7:1234", path)
		routed := p.receive().GetRequestHeaders().GetResponse().GetHeaderMutation()
		require.Contains(t, routed.GetRemoveHeaders(), "x-tenant")
		p.receive()
		m := answerHeaders("200", "text/event-stream", false)
		m.GetResponseHeaders().Headers.Headers = append(m.GetResponseHeaders().GetHeaders().GetHeaders(), headerMap("x-ratelimit-limit-tokens", "a worker's").GetHeaders()...)
		p.send(m)
		mut := p.receive().GetResponseHeaders().GetResponse().GetHeaderMutation()
		require.Contains(t, mut.GetRemoveHeaders(), "x-ratelimit-limit-tokens")
		require.Equal(t, "2", value(mut.GetSetHeaders(), "x-ratelimit-limit-requests"))
		p.send(answerBody(firstEvent+"data: [DONE]\n\n", true))
		p.receive()
	}
	p = from("192.0.2.7:1234", "/v1/chat/completions")
	no := p.receive().GetImmediateResponse()
	require.EqualValues(t, 429, no.GetStatus().GetCode())
	require.NotEmpty(t, value(no.GetHeaders().GetSetHeaders(), "retry-after"))
	require.Equal(t, "0", value(no.GetHeaders().GetSetHeaders(), "x-ratelimit-remaining-requests"))
	r.idle()
	require.Eventually(t, func() bool { return limits.Totals().Running == 0 }, wait, tick)
}

func value(headers []*corev3.HeaderValueOption, name string) string {
	for _, h := range headers {
		if h.GetHeader().GetKey() == name {
			return string(h.GetHeader().GetRawValue())
		}
	}
	return ""
}
