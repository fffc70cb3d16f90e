//nolint:lll,tagalign // the tags are the source of the schemas: a line each
package kubernetes

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Template says of workers what the cluster doesn't. The zero value is fine: engines
// are asked what they are, and speak HTTP at the root of their port.
//
// In custom resources it is what stands under "worker".
type Template struct {
	Scheme       string            `json:"scheme,omitempty"       doc:"How the engine is spoken to. Default http." enum:"http,https"`
	Path         string            `json:"path,omitempty"         doc:"Prefix of the paths of the engine's API, without /v1." pattern:"^/"`
	Engine       fleet.Engine      `json:"engine,omitempty"       doc:"Kind of engine. Default: found out by probing." enum:"vllm,sglang,tensorrt-llm,other"`
	Models       []string          `json:"models,omitempty"       doc:"Names of the models served. Default: /v1/models is asked."`
	Class        string            `json:"class,omitempty"        doc:"Hardware and its settings, such as h100-tp2. Workers of one class share what is learned about speed."`
	Pool         string            `json:"pool,omitempty"         doc:"Group of workers that it belongs to. Requests for a pool go to its workers only."`
	Labels       map[string]string `json:"labels,omitempty"       doc:"Labels for policies to select by, beside those of the pod, which come first."`
	BlockSize    int               `json:"blockSize,omitempty"    doc:"Size of a KV-cache block in tokens. Default: learned from the engine." min:"1" max:"1048576"`
	DataParallel int               `json:"dataParallel,omitempty" doc:"Data-parallel ranks behind one port. Default 1." min:"1" max:"1024"`
	EventsPort   int               `json:"eventsPort,omitempty"   doc:"Port of the KV events of rank 0, over ZMTP; each further rank is one port higher. Default: no events." min:"1" max:"65535"`
	ReplayPort   int               `json:"replayPort,omitempty"   doc:"Port that replays KV events, of rank 0; each further rank is one port higher. Default: no replay." min:"1" max:"65535"`
	EventsTopic  string            `json:"eventsTopic,omitempty"  doc:"Prefix of the topics of KV events that are subscribed to. Default: all."`
	PollEvents   bool              `json:"pollEvents,omitempty"   doc:"KV events are polled at the engine's own port, as TensorRT-LLM has them."`
	Speculative  bool              `json:"speculative,omitempty"  doc:"The engine drafts tokens with EAGLE or MTP."`
	Role         fleet.Role        `json:"role,omitempty"         doc:"Part of requests that it serves. Default: whole ones." enum:"prefill,decode"`
	Draining     bool              `json:"draining,omitempty"     doc:"It takes no new requests; those in flight go on."`
}

// endpoint is where one engine listens.
type endpoint struct {
	name, epoch, host string
	port              int
	// place counts the engines at one address, each with a port of its own.
	place  int
	labels map[string]string
}

// worker makes the worker of an endpoint.
func (t *Template) worker(e *endpoint) fleet.Worker {
	scheme := t.Scheme
	if scheme == "" {
		scheme = "http"
	}
	w := fleet.Worker{
		Name: e.name, Epoch: e.epoch,
		URL:    scheme + "://" + net.JoinHostPort(e.host, strconv.Itoa(e.port)) + strings.TrimRight(t.Path, "/"),
		Engine: t.Engine, Models: slices.Clone(t.Models), Class: t.Class, Pool: t.Pool,
		BlockSize: t.BlockSize, DataParallel: t.DataParallel, Speculative: t.Speculative, Role: t.Role, Draining: t.Draining,
	}
	if n := len(t.Labels) + len(e.labels); n > 0 {
		w.Labels = make(map[string]string, n)
		maps.Copy(w.Labels, t.Labels)
		maps.Copy(w.Labels, e.labels)
	}
	w.Events = t.events(e, w.URL)
	return w
}

func (t *Template) events(e *endpoint, url string) []follow.Endpoint {
	ranks := max(1, t.DataParallel)
	var out []follow.Endpoint
	switch {
	case t.PollEvents:
		for rank := range ranks {
			out = append(out, follow.Endpoint{Events: url, Rank: rank})
		}
	case t.EventsPort != 0:
		at := func(port int) string { return "tcp://" + net.JoinHostPort(e.host, strconv.Itoa(port)) }
		for rank := range ranks {
			offset := e.place*ranks + rank
			ep := follow.Endpoint{Events: at(t.EventsPort + offset), Topic: t.EventsTopic, Rank: rank}
			if t.ReplayPort != 0 {
				ep.Replay = at(t.ReplayPort + offset)
			}
			out = append(out, ep)
		}
	}
	return out
}

// problem says what is wrong with the parts that no worker shows, "" if nothing is.
func (t *Template) problem() (field, problem string) {
	switch {
	case t.Scheme != "" && t.Scheme != "http" && t.Scheme != "https":
		return "scheme", fmt.Sprintf("%q is not http or https", t.Scheme)
	case t.Path != "" && !strings.HasPrefix(t.Path, "/"):
		return "path", fmt.Sprintf("%q does not begin with /; write for example /engine", t.Path)
	case t.DataParallel < 0 || t.DataParallel > maxRanks:
		return "dataParallel", fmt.Sprintf("%d is not between 1 and %d, or 0 for 1", t.DataParallel, maxRanks)
	case t.EventsPort < 0 || t.EventsPort > maxPort:
		return "eventsPort", fmt.Sprintf("%d is not between 1 and %d", t.EventsPort, maxPort)
	case t.ReplayPort < 0 || t.ReplayPort > maxPort:
		return "replayPort", fmt.Sprintf("%d is not between 1 and %d", t.ReplayPort, maxPort)
	case t.ReplayPort != 0 && t.EventsPort == 0:
		return "replayPort", "there is no eventsPort; give both, or neither"
	case t.PollEvents && t.EventsPort != 0:
		return "pollEvents", "eventsPort is given too; events are either polled or subscribed to"
	case t.EventsTopic != "" && t.EventsPort == 0:
		return "eventsTopic", "there is no eventsPort; give both, or neither"
	}
	return "", ""
}

// What the custom resources' schemas say too. Whoever may label a pod chooses these
// numbers, and room is made for as many ranks and engines.
const (
	maxPort    = 65535
	maxBlock   = 1 << 20
	maxRanks   = 1024
	maxEngines = 64
)
