package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kvsteer/kvsteer/fleet"
)

const kindSlice = "EndpointSlice"

// EndpointSlices are the endpoints of a service, or of several that a selector
// chooses: for services whose endpoints are not pods, and for users that may not read
// pods. It knows neither annotations nor restarts of containers, so [Pods] is to be
// preferred. An endpoint that was not ready for a while comes back as a new instance,
// because its engine may be a new one.
//
// It must be neither changed nor copied once it is in use; several Fleets may share it.
// Of an endpoint with addresses of both families the IPv4 one is used, unless
// Options.Family says otherwise. A worker's name is NAMESPACE/POD, or NAMESPACE/SERVICE/ADDRESS
// if the endpoint is no pod, with :PORT if there are several ports.
type EndpointSlices struct {
	// Client reads endpointslices of discovery.k8s.io: its user needs the verbs list and
	// watch for them.
	Client clientset.Interface
	// Namespaces are looked through. None means all.
	Namespaces []string
	// Service is the name of the services whose endpoints are meant. Selector, instead of
	// it, is of labels of the EndpointSlices themselves.
	Service, Selector string
	// Ports are numbers or names of the service's ports, as EndpointSlices have them:
	// those of the endpoints. None means all that there are, which should be one.
	Ports []string

	Options Options

	memory memory
}

var _ fleet.Discoverer = (*EndpointSlices)(nil)

// Validate reports what is missing or can't be; fleet.New asks it.
func (d *EndpointSlices) Validate() error {
	switch {
	case d.Client == nil:
		return errors.New("kubernetes: EndpointSlices.Client is nil; make one with kubernetes.NewForConfig of client-go")
	case (d.Service == "") == (d.Selector == ""):
		return errors.New("kubernetes: give one of EndpointSlices.Service and EndpointSlices.Selector")
	}
	if err := checkSelector("EndpointSlices.Service or Selector", d.selector()); err != nil {
		return err
	}
	if err := checkPorts("EndpointSlices.Ports", d.Ports); err != nil {
		return err
	}
	return d.Options.validate()
}

func (d *EndpointSlices) selector() string {
	if d.Service != "" {
		return discoveryv1.LabelServiceName + "=" + d.Service
	}
	return d.Selector
}

// Discover watches EndpointSlices until ctx ends. It returns an error when the API
// server can't be read from.
func (d *EndpointSlices) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if err := d.Validate(); err != nil {
		return err
	}
	past := d.memory.take(&d.Options)
	defer d.memory.leave(past)
	lives := &past.lives
	return discover(ctx, &d.Options, past.told, set, func(s *session) ([]found, bool, error) {
		ready := true
		var list []found
		there := map[life]bool{}
		for _, ns := range orAll(d.Namespaces) {
			m := s.need(ns, func() *mirror { return s.mirror(sliceReader(d.Client, ns, d.selector()), lives.handler(s.touch)) })
			if !m.synced.Load() {
				ready = false
				continue
			}
			for _, obj := range m.store.List() {
				if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
					for i := range slice.Endpoints {
						there[lifeOf(&slice.Endpoints[i])] = true
					}
					list = append(list, d.workers(s, slice, lives)...)
				}
			}
		}
		if ready {
			lives.only(there)
		}
		return unique(list), ready, nil
	})
}

// unique leaves out what is there twice: an endpoint with addresses of both families,
// and one that is moved between slices, which is in both for a moment. One that drains in either
// does. Of two of one name of which one drains the other stays: it takes its place.
// Slices come in no order, so that it is an order that decides.
func unique(list []found) []found {
	slices.SortFunc(list, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.family, b.family), inOrder(a, b))
	})
	out := list[:0]
	for _, w := range list {
		last := len(out) - 1
		switch {
		case last < 0 || out[last].Name != w.Name || out[last].port != w.port:
			out = append(out, w)
		case out[last].Epoch == w.Epoch:
			out[last].Draining = out[last].Draining || w.Draining
		case out[last].Draining && !w.Draining:
			out[last] = w
		case out[last].Draining == w.Draining:
			out = append(out, w) // two that claim one name: the session reports it
		}
	}
	return out
}

// workers makes the workers of a slice.
func (d *EndpointSlices) workers(s *session, slice *discoveryv1.EndpointSlice, lives *lives) []found {
	if d.Options.Family != FamilyPrimary && string(slice.AddressType) != string(d.Options.Family) || slice.DeletionTimestamp != nil {
		return nil
	}
	from := origin{kindSlice, slice.Namespace, slice.Name}
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		s.problems.add(from.problem("addressType", "names are not endpoints; use IPv4 or IPv6"))
		return nil
	}
	ports, problem := slicePorts(slice.Ports, d.Ports)
	if problem != "" && len(slice.Endpoints) > 0 {
		s.problems.add(from.problem("ports", problem))
		return nil
	}
	var out []found
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		listed, draining := endpointStanding(&e.Conditions)
		if !listed || len(e.Addresses) == 0 {
			continue
		}
		for place, port := range ports {
			at := endpoint{
				name: endpointName(slice, e), epoch: lives.epoch(e), host: e.Addresses[0], port: port, place: place,
			}
			if len(ports) > 1 {
				at.name += ":" + strconv.Itoa(port)
			}
			w := d.Options.Template.worker(&at)
			w.Draining = w.Draining || draining
			if d.Options.Adjust == nil || d.Options.Adjust(&w, nil) {
				out = append(out, found{Worker: w, from: from, family: string(slice.AddressType), port: port})
			}
		}
	}
	return out
}

// endpointStanding: what nobody knows of readiness counts as ready, as the API says.
func endpointStanding(c *discoveryv1.EndpointConditions) (listed, draining bool) {
	if c.Terminating != nil && *c.Terminating {
		return true, true
	}
	return c.Ready == nil || *c.Ready, false
}

func endpointName(slice *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint) string {
	if e.TargetRef != nil && e.TargetRef.Kind == kindPod {
		return slice.Namespace + "/" + e.TargetRef.Name
	}
	service := slice.Labels[discoveryv1.LabelServiceName]
	if service == "" {
		service = slice.Name
	}
	return slice.Namespace + "/" + service + "/" + e.Addresses[0]
}

// slicePorts are the numbers of the ports that are wanted, in that order.
func slicePorts(all []discoveryv1.EndpointPort, wanted []string) (ports []int, problem string) {
	if len(wanted) == 0 {
		for _, p := range all {
			if usable(p) {
				ports = append(ports, int(*p.Port))
			}
		}
		slices.Sort(ports)
		if len(ports) == 0 {
			return nil, "there is no TCP port; give the service one"
		}
		return ports, ""
	}
	for _, want := range wanted {
		number, err := strconv.Atoi(want)
		i := slices.IndexFunc(all, func(p discoveryv1.EndpointPort) bool {
			return usable(p) && (err == nil && int(*p.Port) == number || err != nil && p.Name != nil && *p.Name == want)
		})
		if i < 0 {
			return nil, fmt.Sprintf("there is no TCP port %s; correct Ports, or the service", want)
		}
		ports = append(ports, int(*all[i].Port))
	}
	return ports, ""
}

func usable(p discoveryv1.EndpointPort) bool {
	return p.Port != nil && (p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP)
}

// life is what an endpoint is known by: its pod, or else its address.
type life struct {
	uid     types.UID
	address string
}

// lives counts how often endpoints came back. It is told of every event, also of those
// that are folded into one list.
type lives struct {
	mu sync.Mutex
	// count has everybody that was seen. next is where who is new begins: what was
	// forgotten comes back as another instance.
	count map[life]int
	next  int
	out   map[life]bool
}

// maxLives bounds what is remembered beside what is in slices.
const maxLives = 1 << 16

// only is told who is in slices, all of them. Addresses that are in none were left out
// while nobody watched.
func (l *lives) only(there map[life]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	forget := len(l.count) > maxLives
	for who, n := range l.count {
		switch {
		case there[who]:
		case forget:
			l.next = max(l.next, n+1)
			delete(l.count, who)
			delete(l.out, who)
		case who.uid == "":
			l.out[who] = true
		}
	}
}

// of is the count of who; the caller holds the lock.
func (l *lives) of(who life) int {
	n, known := l.count[who]
	if !known {
		n = l.next
		l.count[who] = n
	}
	return n
}

func lifeOf(e *discoveryv1.Endpoint) life {
	if e.TargetRef != nil && e.TargetRef.UID != "" {
		return life{uid: e.TargetRef.UID}
	}
	if len(e.Addresses) == 0 {
		return life{}
	}
	return life{address: e.Addresses[0]}
}

func (l *lives) handler(touch func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			l.see(obj, false)
			touch()
		},
		UpdateFunc: func(old, obj any) {
			l.left(old, obj)
			l.see(obj, false)
			touch()
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			l.see(obj, true)
			touch()
		},
	}
}

// see notes who is ready and who isn't.
func (l *lives) see(obj any, gone bool) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		who := lifeOf(e)
		n := l.of(who)
		listed, _ := endpointStanding(&e.Conditions)
		switch {
		case gone && who.uid != "":
			// Slices are rewritten: a pod moves between them.
		case gone || !listed:
			l.out[who] = true
		case l.out[who]:
			delete(l.out, who)
			l.count[who] = n + 1
		}
	}
}

// left notes addresses, of what is no pod, that an update left out.
func (l *lives) left(old, obj any) {
	before, ok1 := old.(*discoveryv1.EndpointSlice)
	now, ok2 := obj.(*discoveryv1.EndpointSlice)
	if !ok1 || !ok2 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range before.Endpoints {
		who := lifeOf(&before.Endpoints[i])
		still := slices.ContainsFunc(now.Endpoints, func(e discoveryv1.Endpoint) bool { return lifeOf(&e) == who })
		if !still && who.uid == "" {
			l.out[who] = true
		}
	}
}

// epoch is that of an endpoint as it is now.
func (l *lives) epoch(e *discoveryv1.Endpoint) string {
	who := lifeOf(e)
	l.mu.Lock()
	n := l.of(who)
	l.mu.Unlock()
	name := string(who.uid)
	if name == "" {
		name = strings.ReplaceAll(who.address, ":", "-")
	}
	return name + "." + strconv.Itoa(n)
}

func sliceReader(client clientset.Interface, ns, selector string) *reader {
	api := client.DiscoveryV1().EndpointSlices(ns)
	return &reader{
		what: "endpointslices" + inNamespace(ns), example: &discoveryv1.EndpointSlice{}, labels: selector,
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, opts) },
		watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, opts)
		},
	}
}
