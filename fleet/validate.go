package fleet

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Bounds on a worker's description. They are far above any real one and keep a
// broken inventory from filling memory.
const (
	maxNameBytes    = 253 // the longest DNS name
	maxURLBytes     = 2048
	maxModels       = 1024
	maxModelBytes   = 512
	maxLabels       = 256
	maxLabelBytes   = 1024
	maxBlockSize    = 1 << 20
	maxDataParallel = 1024
	maxPort         = 65535
	// maxWorkerErrors bounds the length of one joined error.
	maxWorkerErrors = 20
)

// Validate checks a list of workers as a Fleet would: each field, and that no two
// workers have one name or one publisher of events. The error joins one *WorkerError for each problem, up to 20.
func Validate(workers []Worker) error {
	var errs []error
	seen := make(map[string]int, len(workers))
	claimed := make(publishers, len(workers))
	for i := range workers {
		w := &workers[i]
		check := checker{index: i, worker: w.Name, claimed: claimed}
		check.all(w)
		if first, dup := seen[w.Name]; dup && w.Name != "" {
			check.failf("name", "also the name of worker number %d; give each worker a name of its own", first+1)
		}
		seen[w.Name] = i
		errs = append(errs, check.errs...)
		if len(errs) >= maxWorkerErrors {
			errs = errs[:maxWorkerErrors]
			break
		}
	}
	return errors.Join(errs...)
}

// Validate checks one worker; see the function Validate.
func (w *Worker) Validate() error {
	check := checker{worker: w.Name, claimed: make(publishers)}
	check.all(w)
	return errors.Join(check.errs...)
}

// Clone returns a copy that shares nothing with w.
func (w *Worker) Clone() Worker {
	c := *w
	c.Models = slices.Clone(w.Models)
	c.Labels = maps.Clone(w.Labels)
	c.Events = slices.Clone(w.Events)
	return c
}

// Ranks is the number of data-parallel ranks behind the worker's URL, at least 1.
func (w *Worker) Ranks() int { return max(1, w.DataParallel) }

// Equal reports whether two descriptions say the same.
func (w *Worker) Equal(o *Worker) bool {
	return w.Name == o.Name && w.Epoch == o.Epoch && w.URL == o.URL && w.Engine == o.Engine &&
		w.Class == o.Class && w.Pool == o.Pool && w.BlockSize == o.BlockSize && w.DataParallel == o.DataParallel &&
		w.Speculative == o.Speculative && w.Role == o.Role && w.Draining == o.Draining &&
		slices.Equal(w.Models, o.Models) && maps.Equal(w.Labels, o.Labels) && slices.Equal(w.Events, o.Events)
}

// normalise copies w and fills in what a list may leave out.
func normalise(w *Worker) Worker {
	c := w.Clone()
	// A list of publishers that names no rank is meant in order.
	if len(c.Events) > 1 && !slices.ContainsFunc(c.Events, func(e follow.Endpoint) bool { return e.Rank != 0 }) {
		for i := range c.Events {
			c.Events[i].Rank = i
		}
	}
	c.URL = strings.TrimRight(c.URL, "/")
	return c
}

type checker struct {
	index  int
	worker string
	errs   []error
	// claimed are the publishers of the workers before this one.
	claimed publishers
}

func (c *checker) failf(field, format string, args ...any) {
	c.errs = append(c.errs, &WorkerError{
		Index: c.index, Worker: c.worker, Field: field, Problem: fmt.Sprintf(format, args...),
	})
}

func (c *checker) all(w *Worker) {
	c.name(w.Name)
	if problem := textProblem(w.Epoch, maxNameBytes); problem != "" {
		c.failf("epoch", "%s", problem)
	}
	c.url(w.URL)
	c.engine(w.Engine)
	c.role(w.Role)
	c.models(w.Models)
	if problem := textProblem(w.Class, maxNameBytes); problem != "" {
		c.failf("class", "%s", problem)
	}
	if problem := textProblem(w.Pool, maxNameBytes); problem != "" {
		c.failf("pool", "%s", problem)
	}
	c.labels(w.Labels)
	if w.BlockSize < 0 || w.BlockSize > maxBlockSize {
		c.failf("blockSize", "%d is not between 1 and %d tokens; leave it out to learn it from the engine",
			w.BlockSize, maxBlockSize)
	}
	if w.DataParallel < 0 || w.DataParallel > maxDataParallel {
		c.failf("dataParallel", "%d is not between 1 and %d ranks; leave it out if there is one",
			w.DataParallel, maxDataParallel)
		return // the events can't be counted against it
	}
	c.events(w)
}

func (c *checker) name(name string) {
	switch {
	case name == "":
		c.failf("name", "missing; give each worker a name that it keeps over restarts")
	case strings.ContainsRune(name, '@'):
		c.failf("name", "contains '@', which separates name and epoch in an instance's id; use another character")
	default:
		if problem := textProblem(name, maxNameBytes); problem != "" {
			c.failf("name", "%s", problem)
		}
	}
}

func (c *checker) url(raw string) {
	const field = "url"
	if raw == "" {
		c.failf(field, "missing; write the engine's address, for example http://10.0.0.7:8000")
		return
	}
	c.http(field, raw)
}

// http checks an address that requests are sent to.
func (c *checker) http(field, raw string) {
	if len(raw) > maxURLBytes {
		c.failf(field, "longer than %d bytes", maxURLBytes)
		return
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error quotes the URL, which may hold a password.
		c.failf(field, "not a URL; write scheme://host:port, for example http://10.0.0.7:8000")
		return
	}
	switch {
	case u.User != nil:
		c.failf(field, "contains a user name or password, which would end up in logs; "+
			"add credentials to requests with Options.Prepare")
	case u.Scheme != "http" && u.Scheme != "https":
		c.failf(field, "scheme %q is not http or https; write for example http://10.0.0.7:8000", u.Scheme)
	case u.Hostname() == "":
		c.failf(field, "has no host; write for example http://10.0.0.7:8000")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		c.failf(field, "has a query or a fragment; end it after the path")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
		c.failf(field, "ends in /v1, which is appended to it with the rest of the API's path; leave it out")
	default:
		c.host(field, u.Hostname())
		if port := u.Port(); port != "" && !validPort(port) {
			c.failf(field, "port %q is not between 1 and %d", port, maxPort)
		}
	}
}

// host refuses addresses that only make sense to listen on.
func (c *checker) host(field, host string) {
	if host == "*" || (net.ParseIP(host) != nil && net.ParseIP(host).IsUnspecified()) {
		c.failf(field, "%s is an address to listen on; write the one under which the engine can be reached from here", host)
	}
}

func (c *checker) engine(e Engine) {
	switch e {
	case EngineAuto, EngineVLLM, EngineSGLang, EngineTRTLLM, EngineOther:
	default:
		c.failf("engine", "%q is not known; use %s, %s, %s or %s, or leave it out to find out by probing",
			string(e), EngineVLLM, EngineSGLang, EngineTRTLLM, EngineOther)
	}
}

func (c *checker) role(r Role) {
	switch r {
	case RoleWhole, RolePrefill, RoleDecode:
	default:
		c.failf("role", "%q is not known; use %s or %s, or leave it out for a worker that serves whole requests",
			string(r), RolePrefill, RoleDecode)
	}
}

func (c *checker) models(models []string) {
	if len(models) > maxModels {
		c.failf("models", "%d models are more than %d; list fewer", len(models), maxModels)
		return
	}
	seen := make(map[string]bool, len(models))
	for i, m := range models {
		field := "models[" + strconv.Itoa(i) + "]"
		problem := textProblem(m, maxModelBytes)
		switch {
		case m == "":
			c.failf(field, "empty; remove it")
		case problem != "":
			c.failf(field, "%s", problem)
		case seen[m]:
			c.failf(field, "%q is listed twice; remove one", m)
		}
		seen[m] = true
	}
}

func (c *checker) labels(labels map[string]string) {
	if len(labels) > maxLabels {
		c.failf("labels", "%d labels are more than %d; give fewer", len(labels), maxLabels)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if problem := textProblem(k, maxLabelBytes); problem != "" || k == "" {
			c.failf("labels", "a key is empty, too long or unprintable; correct it")
			continue
		}
		if problem := textProblem(labels[k], maxLabelBytes); problem != "" {
			c.failf("labels."+k, "%s", problem)
		}
	}
}

func (c *checker) events(w *Worker) {
	if len(w.Events) == 0 {
		return
	}
	if len(w.Events) != w.Ranks() {
		c.failf("events", "%d publishers for %d data-parallel ranks; list one for each rank, or set dataParallel to %d",
			len(w.Events), w.Ranks(), len(w.Events))
	}
	ranks := make(map[int]bool, len(w.Events))
	ranked := slices.ContainsFunc(w.Events, func(e follow.Endpoint) bool { return e.Rank != 0 })
	for i := range w.Events {
		e := &w.Events[i]
		field := "events[" + strconv.Itoa(i) + "]"
		if e.Events == "" {
			c.failf(field+".events", "missing; write the address to subscribe to, for example tcp://10.0.0.7:5557")
		} else {
			c.endpoint(field+".events", e.Events)
			c.publisher(i, e)
		}
		if e.Replay != "" {
			c.endpoint(field+".replay", e.Replay)
			switch {
			case isPolled(e.Events):
				c.failf(field+".replay", "events that are polled over HTTP can't be replayed; leave it out")
			// In process one name serves both; as sockets they are two.
			case e.Replay == e.Events && !strings.HasPrefix(e.Events, follow.HubScheme):
				c.failf(field+".replay", "is the same address as events; it is a socket of its own (replay_endpoint)")
			}
		}
		if len(e.Topic) > maxNameBytes {
			c.failf(field+".topic", "longer than %d bytes", maxNameBytes)
		}
		switch {
		case e.Rank < 0:
			c.failf(field+".rank", "%d is negative; ranks count from 0", e.Rank)
		case ranked && ranks[e.Rank]:
			c.failf(field+".rank", "%d is given twice; number each publisher by its rank", e.Rank)
		}
		ranks[e.Rank] = true
	}
}

// publisher checks that an endpoint's address is nobody else's.
func (c *checker) publisher(place int, e *follow.Endpoint) {
	if taken := c.claimed.claim(c.worker, place, e); taken != "" {
		c.failf("events["+strconv.Itoa(place)+"].events",
			"also %s; every engine, and every rank of it, publishes at an address of its own, so correct one of them", taken)
	}
}

// isPolled reports whether events are asked for over HTTP, as TensorRT-LLM's are.
func isPolled(addr string) bool {
	scheme, _, _ := strings.Cut(addr, "://")
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// endpoint checks addresses of tcp and HTTP; other schemes are the transport's
// business.
func (c *checker) endpoint(field, addr string) {
	scheme, rest, ok := strings.Cut(addr, "://")
	if !ok || scheme == "" || rest == "" {
		c.failf(field, "not scheme://address; write for example tcp://10.0.0.7:5557")
		return
	}
	if problem := textProblem(addr, maxURLBytes); problem != "" {
		c.failf(field, "%s", problem)
		return
	}
	if isPolled(addr) {
		c.http(field, addr)
		return
	}
	if scheme != "tcp" {
		return
	}
	host, port, err := net.SplitHostPort(rest)
	switch {
	case err != nil || host == "":
		c.failf(field, "has no host and port; write for example tcp://10.0.0.7:5557")
	case !validPort(port):
		c.failf(field, "port %q is not between 1 and %d; port 0 is chosen by the engine at start, give it a fixed one", port, maxPort)
	default:
		c.host(field, host)
	}
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// textProblem says why s can't be shown in a log line or a label, or "".
func textProblem(s string, limit int) string {
	switch {
	case len(s) > limit:
		return fmt.Sprintf("longer than %d bytes; shorten it", limit)
	case !utf8.ValidString(s):
		return "not valid UTF-8; correct it"
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "contains a control or other unprintable character; remove it"
	default:
		return ""
	}
}
