package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/kvsteer/kvsteer/fleet"
)

// ErrNoPool: there is no InferencePool of that name. Seen in Fleet.Err: correct the
// name, or create the pool.
var ErrNoPool = errors.New("kubernetes: no such InferencePool")

// Pool are the pods of one InferencePool: that of the Gateway API Inference Extension
// (inference.networking.k8s.io/v1) or KVSteer's own. Client, Objects, Namespace and
// Name are required. It must be neither changed nor copied once it is in use; several
// Fleets may share it.
//
// Workers are named as those of [Pods]; their Pool is the pool's name unless something
// else is said. A pool that is deleted has no workers. One that is wrong is reported to
// Options.OnProblem and, if it is KVSteer's, in its status; what it said before stays in
// force as long as there are this Pool and the object.
type Pool struct {
	// Client reads pods, Objects reads the pool: list and watch for both.
	Client  clientset.Interface
	Objects dynamic.Interface
	// Namespace and Name are the pool's.
	Namespace, Name string
	// Own: the pool is KVSteer's, of kvsteer.dev/v1alpha1, and its status is written: the
	// verb patch for it. ReadOnly: nothing is written to the cluster.
	Own, ReadOnly bool

	Options Options

	memory memory
}

var _ fleet.Discoverer = (*Pool)(nil)

// Validate reports what is missing or can't be; fleet.New asks it.
func (d *Pool) Validate() error {
	switch {
	case d.Client == nil:
		return errors.New("kubernetes: Pool.Client is nil; make one with kubernetes.NewForConfig of client-go")
	case d.Objects == nil:
		return errors.New("kubernetes: Pool.Objects is nil; make one with dynamic.NewForConfig of client-go")
	case d.Namespace == "" || d.Name == "":
		return errors.New("kubernetes: Pool.Namespace and Pool.Name are both required; name the InferencePool")
	}
	return d.Options.validate()
}

// Discover watches the pool and its pods until ctx ends. It returns an error when the
// API server can't be read from, and when there is no such pool,
// or one that never was right.
func (d *Pool) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if err := d.Validate(); err != nil {
		return err
	}
	resource := Resource(gatewayGroupVersion(), KindPool)
	if d.Own {
		resource = Resource(GroupVersion, KindPool)
	}
	past := d.memory.take(&d.Options)
	defer d.memory.leave(past)
	status := statusWriter{Client: d.Objects, Timeout: d.Options.timeout()}
	return discover(ctx, &d.Options, past.told, set, func(s *session) ([]found, bool, error) {
		m := s.need("pool", func() *mirror {
			return s.mirror(objectReader(d.Objects, resource, KindPool, d.Namespace, d.Name, ""), s.onChange())
		})
		if !m.synced.Load() {
			return nil, false, nil
		}
		obj, ok, _ := m.store.GetByKey(d.Namespace + "/" + d.Name)
		u, isObject := obj.(*unstructured.Unstructured)
		if !ok || !isObject || u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0 {
			// One that was there and was deleted has no workers. One that never was is a
			// mistake, which must not empty a fleet that other lists fill.
			past.pool = nil
			return nil, past.poolSeen, fmt.Errorf("%w: %s %s/%s", ErrNoPool, resource.GroupResource(), d.Namespace, d.Name)
		}
		past.poolSeen = true
		spec, wrong := d.spec(u)
		switch {
		case wrong == nil:
			past.pool = spec
		case past.pool == nil:
			d.report(s, &status, u, nil, wrong)
			return nil, false, wrong
		default:
			s.problems.add(wrong)
		}
		list, ready := d.workers(s, past.pool)
		if ready {
			count := len(list)
			d.report(s, &status, u, &count, wrong)
		}
		return list, ready, nil
	})
}

// report has the pool's status written. workers is nil if nothing of it is in force.
func (d *Pool) report(s *session, status *statusWriter, u *unstructured.Unstructured, workers *int, wrong *ObjectError) {
	if !d.Own || d.ReadOnly {
		return
	}
	c := condition{Type: ConditionAccepted, Status: true, Reason: ReasonAccepted, Message: "The pool is in force."}
	if wrong != nil {
		c.Status, c.Reason, c.Message = false, ReasonLastGood, wrong.Error()
		if workers == nil {
			c.Reason = ReasonInvalid
		}
	}
	s.reports = append(s.reports, func() {
		if err := status.Write(s.ctx, u, workers, c); err != nil && s.ctx.Err() == nil {
			s.problems.add(origin{KindPool, u.GetNamespace(), u.GetName()}.problem("status", err.Error()))
		}
	})
}

// spec reads the pool.
func (d *Pool) spec(u *unstructured.Unstructured) (*InferencePoolSpec, *ObjectError) {
	var spec InferencePoolSpec
	from := origin{KindPool, u.GetNamespace(), u.GetName()}
	if err := decode(u, &spec); err != nil {
		return nil, from.problem("spec", err.Error())
	}
	if _, problem := spec.Selector.query(); problem != "" {
		return nil, from.problem("spec.selector", problem)
	}
	if field, problem := over(&spec.Worker, &d.Options.Template).problem(); problem != "" {
		return nil, from.problem("spec.worker."+field, problem)
	}
	return &spec, nil
}

func (d *Pool) workers(s *session, spec *InferencePoolSpec) (list []found, ready bool) {
	template := over(&spec.Worker, &d.Options.Template)
	if template.Pool == "" {
		template.Pool = d.Name
	}
	query, _ := spec.Selector.query() // spec found it right
	pods, ready := s.pods(d.Client, []string{d.Namespace}, query)
	if !ready {
		return nil, false
	}
	for _, pod := range pods {
		list = append(list, s.workers(pod, template, portsOf(spec.TargetPorts))...)
	}
	return list, true
}

func portsOf(targets []TargetPort) []string {
	ports := make([]string, len(targets))
	for i := range targets {
		ports[i] = strconv.Itoa(targets[i].Number)
	}
	return slices.Compact(ports)
}

// over is what first says, and where it says nothing what second does.
func over(first, second *Template) *Template {
	t := *first
	pick(&t.Scheme, second.Scheme)
	pick(&t.Path, second.Path)
	pick(&t.Engine, second.Engine)
	pick(&t.Class, second.Class)
	pick(&t.Pool, second.Pool)
	pick(&t.BlockSize, second.BlockSize)
	pick(&t.DataParallel, second.DataParallel)
	pick(&t.Role, second.Role)
	pick(&t.Speculative, second.Speculative)
	pick(&t.Draining, second.Draining)
	if t.EventsPort == 0 && !t.PollEvents { // what is said of events belongs together
		t.EventsPort, t.ReplayPort, t.EventsTopic, t.PollEvents =
			second.EventsPort, second.ReplayPort, second.EventsTopic, second.PollEvents
	}
	if t.Models == nil {
		t.Models = second.Models
	}
	if t.Labels == nil {
		t.Labels = second.Labels
	}
	return &t
}

func pick[T comparable](into *T, other T) {
	var zero T
	if *into == zero {
		*into = other
	}
}
