package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/kvsteer/kvsteer/fleet"
)

// WorkerSets are the workers of KVSteer's InferenceWorkerSets: pods, and servers
// outside of the cluster. Client and Objects are required. It must be neither changed
// nor copied once it is in use; several Fleets may share it.
//
// Workers that are pods are named as those of [Pods], others NAMESPACE/NAME. A pod that
// two sets choose belongs to the first by namespace and name. A set that is wrong is
// reported in its own status and to Options.OnProblem; what it said before stays in
// force as long as there is this WorkerSets and the set.
type WorkerSets struct {
	// Client reads pods: list and watch. Objects reads inferenceworkersets of
	// kvsteer.dev, with the same verbs, and writes their status: patch.
	Client  clientset.Interface
	Objects dynamic.Interface
	// Namespaces are looked through. None means all.
	Namespaces []string
	// Selector is of labels of the sets. Empty means all of them.
	Selector string
	// ReadOnly: nothing is written to the cluster.
	ReadOnly bool

	Options Options

	memory memory
}

var _ fleet.Discoverer = (*WorkerSets)(nil)

// Validate reports what is missing or can't be; fleet.New asks it.
func (d *WorkerSets) Validate() error {
	switch {
	case d.Client == nil:
		return errors.New("kubernetes: WorkerSets.Client is nil; make one with kubernetes.NewForConfig of client-go")
	case d.Objects == nil:
		return errors.New("kubernetes: WorkerSets.Objects is nil; make one with dynamic.NewForConfig of client-go")
	}
	if err := checkSelector("WorkerSets.Selector", d.Selector); err != nil {
		return err
	}
	return d.Options.validate()
}

// Discover watches the sets and their pods until ctx ends. It returns an error when
// the API server can't be read from.
func (d *WorkerSets) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if err := d.Validate(); err != nil {
		return err
	}
	past := d.memory.take(&d.Options)
	defer d.memory.leave(past)
	r := &setRound{WorkerSets: d, good: past.sets}
	r.status = statusWriter{Client: d.Objects, Timeout: d.Options.timeout()}
	return discover(ctx, &d.Options, past.told, set, r.build)
}

// setRound makes lists of what the sets say.
type setRound struct {
	*WorkerSets

	// good is what each set said last that was right.
	good   map[string]*InferenceWorkerSetSpec
	status statusWriter
}

func (d *setRound) build(s *session) ([]found, bool, error) {
	var sets []*unstructured.Unstructured
	for _, ns := range orAll(d.Namespaces) {
		m := s.need("sets/"+ns, func() *mirror {
			return s.mirror(objectReader(d.Objects, Resource(GroupVersion, KindWorkerSet), KindWorkerSet, ns, "", d.Selector), s.onChange())
		})
		if !m.synced.Load() {
			return nil, false, nil
		}
		for _, obj := range m.store.List() {
			if u, ok := obj.(*unstructured.Unstructured); ok && u.GetDeletionTimestamp() == nil {
				sets = append(sets, u)
			}
		}
	}
	slices.SortFunc(sets, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	d.forget(sets)
	ready := true
	var list []found
	reports := make([]setReport, 0, len(sets))
	taken := map[string]string{}
	for _, u := range sets {
		spec, report := d.spec(u)
		if spec != nil {
			mine, known := d.members(s, u, spec, taken, &report)
			ready = ready && known
			list = append(list, mine...)
			report.workers = len(mine)
		}
		reports = append(reports, report)
	}
	if ready {
		for i := range reports {
			d.report(s, &reports[i])
		}
	}
	return list, ready, nil
}

// forget drops what sets said that are no more.
func (d *setRound) forget(sets []*unstructured.Unstructured) {
	for key := range d.good {
		if !slices.ContainsFunc(sets, func(u *unstructured.Unstructured) bool { return goodKey(u) == key }) {
			delete(d.good, key)
		}
	}
}

func keyOf(u *unstructured.Unstructured) string { return u.GetNamespace() + "/" + u.GetName() }

// goodKey has the uid too: a new set of an old one's name has said nothing so far.
func goodKey(u *unstructured.Unstructured) string { return keyOf(u) + "/" + string(u.GetUID()) }

// setReport is what is to be said of a set.
type setReport struct {
	object  *unstructured.Unstructured
	workers int
	// wrong is why the set is not in force as it is; kept: as it was before.
	wrong *ObjectError
	kept  bool
}

// spec reads a set, or recalls what it said when it was right.
func (d *setRound) spec(u *unstructured.Unstructured) (*InferenceWorkerSetSpec, setReport) {
	var spec InferenceWorkerSetSpec
	report := setReport{object: u}
	from := origin{KindWorkerSet, u.GetNamespace(), u.GetName()}
	err := decode(u, &spec)
	field, problem := spec.Worker.problem()
	switch {
	case err != nil:
		report.wrong = from.problem("spec", err.Error())
	case problem != "":
		report.wrong = from.problem("spec.worker."+field, problem)
	case spec.Selector == nil && len(spec.Workers) == 0:
		report.wrong = from.problem("spec", "it has neither a selector nor workers; give one of them")
	default:
		if spec.Selector != nil {
			if _, problem = spec.Selector.query(); problem != "" {
				report.wrong = from.problem("spec.selector", problem+", or leave it out")
				break
			}
		}
		if err := fleet.Validate(named(u, spec.Workers)); err != nil {
			report.wrong = from.problem("spec.workers", err.Error())
		}
	}
	if report.wrong == nil {
		d.good[goodKey(u)] = &spec
		return &spec, report
	}
	last := d.good[goodKey(u)]
	report.kept = last != nil
	return last, report
}

// named puts the namespace before the names of workers that are no pods.
func named(u *unstructured.Unstructured, workers []fleet.Worker) []fleet.Worker {
	out := make([]fleet.Worker, len(workers))
	for i := range workers {
		out[i] = workers[i].Clone()
		if out[i].Name != "" {
			out[i].Name = u.GetNamespace() + "/" + out[i].Name
		}
	}
	return out
}

// members are the workers of a set, as far as they don't belong to one before it.
func (d *setRound) members(s *session, u *unstructured.Unstructured, spec *InferenceWorkerSetSpec,
	taken map[string]string, report *setReport,
) (list []found, ready bool) {
	from := origin{KindWorkerSet, u.GetNamespace(), u.GetName()}
	for _, w := range named(u, spec.Workers) {
		if d.Options.Adjust != nil && !d.Options.Adjust(&w, nil) {
			continue
		}
		list = append(list, found{Worker: w, from: from})
	}
	if spec.Selector == nil {
		return list, true
	}
	query, _ := spec.Selector.query() // spec found it right
	pods, ready := s.pods(d.Client, []string{u.GetNamespace()}, query)
	template := over(&spec.Worker, &d.Options.Template)
	for _, pod := range pods {
		key := pod.Namespace + "/" + pod.Name
		if other, dup := taken[key]; dup {
			if report.wrong == nil {
				report.wrong = from.problem("spec.selector", "pods such as "+key+" belong to the set "+other+
					", which comes before it; correct one of the selectors")
				report.kept = true
			}
			continue
		}
		taken[key] = keyOf(u)
		list = append(list, s.workers(pod, template, portsOf(spec.TargetPorts))...)
	}
	return list, ready
}

func (d *setRound) report(s *session, r *setReport) {
	c := condition{Type: ConditionAccepted, Status: true, Reason: ReasonAccepted, Message: "The set is in force."}
	if r.wrong != nil {
		s.problems.add(r.wrong)
		c.Status, c.Reason, c.Message = false, ReasonInvalid, r.wrong.Problem
		if r.wrong.Field != "" {
			c.Message = r.wrong.Field + ": " + c.Message
		}
		if r.kept {
			c.Reason = ReasonLastGood
		}
	}
	if d.ReadOnly {
		return
	}
	s.reports = append(s.reports, func() {
		if err := d.status.Write(s.ctx, r.object, &r.workers, c); err != nil && s.ctx.Err() == nil {
			s.problems.add(origin{KindWorkerSet, r.object.GetNamespace(), r.object.GetName()}.problem("status", err.Error()))
		}
	})
}
