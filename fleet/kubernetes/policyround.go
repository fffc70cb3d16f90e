package kubernetes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kvsteer/kvsteer/policy"
)

// policyRound is one look at all objects.
type policyRound struct {
	*Policies

	policies []*unstructured.Unstructured
	others   []*unstructured.Unstructured
	// parsed is what each policy says, nil if it can't be read; chosen is what is to be
	// in force of it.
	parsed, chosen map[string]*policy.File
	errs           map[string][]policy.Finding
	// pools: there are pools, so that a policy may not name others.
	pools bool
	// fresh is what this round has put in force in place of something else.
	fresh *policy.Set
	// providerErrs are what is wrong with providers.
	providerErrs map[string]error
}

func (p *Policies) round(s *session) error {
	r := &policyRound{
		Policies: p, parsed: map[string]*policy.File{}, chosen: map[string]*policy.File{}, errs: map[string][]policy.Finding{},
	}
	if !r.gather(s) {
		return nil
	}
	manifests := r.parse()
	r.choose(manifests)
	r.serve()
	err := r.load()
	p.told.begin()
	p.note(r, err)
	if r.fresh != nil && p.opts.OnLoad != nil {
		p.opts.OnLoad(r.fresh) // which finds it in Status
	}
	r.report(s)
	p.told.end()
	select {
	case p.first <- r.openError(err):
	default: // it was opened
	}
	return nil
}

// openError is what opening fails with.
func (r *policyRound) openError(err error) error {
	var all []policy.Finding
	for _, key := range slices.Sorted(maps.Keys(r.errs)) {
		all = append(all, r.errs[key]...)
	}
	if len(all) > 0 {
		return &policy.CheckError{Findings: all}
	}
	return err
}

// gather copies the objects of all kinds, once all are known.
func (r *policyRound) gather(s *session) bool {
	ready := true
	for _, kind := range []string{KindPolicy, KindPool, KindWorkerSet, KindProvider, KindBackend} {
		selector := ""
		if kind == KindPolicy {
			selector = r.opts.Selector
		}
		for _, ns := range orAll(r.opts.Namespaces) {
			m := s.need(kind+"/"+ns, func() *mirror {
				return s.mirror(objectReader(r.opts.Client, Resource(GroupVersion, kind), kind, ns, "", selector), s.onChange())
			})
			if !m.synced.Load() {
				ready = false
				continue
			}
			for _, obj := range m.store.List() {
				u, ok := obj.(*unstructured.Unstructured)
				switch {
				case !ok || u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0:
				case kind == KindPolicy:
					r.policies = append(r.policies, u)
				default:
					r.others = append(r.others, u)
				}
			}
		}
	}
	byName := func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(a.GetKind()+keyOf(a), b.GetKind()+keyOf(b))
	}
	slices.SortFunc(r.policies, byName)
	slices.SortFunc(r.others, byName)
	return ready
}

// parse reads all objects, and returns those that define names. Names of worker sets
// are not those of workers, which come and go, and backends are not providers.
func (r *policyRound) parse() (manifests []*policy.File) {
	for _, u := range r.others {
		switch u.GetKind() {
		case KindPool:
			r.pools = true
			fallthrough
		case KindProvider:
			f, _ := parseObject(u)
			manifests = append(manifests, f)
		}
	}
	for _, u := range r.policies {
		key := keyOf(u)
		f, findings := parseObject(u)
		if bad := errorsAmong(findings); len(bad) > 0 || len(f.Specs) != 1 {
			if len(bad) == 0 {
				bad = []policy.Finding{{Policy: key, Severity: policy.SeverityError, Code: policy.CodeSyntax, Message: "it can't be read"}}
			}
			r.errs[key] = bad
			continue
		}
		r.parsed[key] = f
	}
	return manifests
}

func parseObject(u *unstructured.Unstructured) (*policy.File, []policy.Finding) {
	slim := u.DeepCopy()
	slim.SetManagedFields(nil)
	unstructured.RemoveNestedField(slim.Object, "status")
	text, err := json.Marshal(slim.Object)
	if err != nil { // what came as JSON is JSON
		return &policy.File{}, []policy.Finding{{Severity: policy.SeverityError, Code: policy.CodeSyntax, Message: err.Error()}}
	}
	return policy.Parse(u.GetKind()+" "+keyOf(u), text)
}

// errorsAmong are the errors, without the places that they have in text that nobody
// wrote.
func errorsAmong(findings []policy.Finding) []policy.Finding {
	var out []policy.Finding
	for _, f := range findings {
		if f.Severity == policy.SeverityError {
			f.File, f.Line, f.Column = "", 0, 0
			out = append(out, f)
		}
	}
	return out
}

// choose decides what is in force of each policy: what it says, or else what it said
// before. Policies are checked together, and each that is wrong is taken back.
func (r *policyRound) choose(manifests []*policy.File) {
	for _, u := range r.policies {
		key := keyOf(u)
		if f := cmp.Or(r.parsed[key], r.good[key]); f != nil {
			r.chosen[key] = f
		}
	}
	for range len(r.policies) + 1 {
		files := slices.Clone(manifests)
		for _, key := range slices.Sorted(maps.Keys(r.chosen)) {
			files = append(files, r.chosen[key])
		}
		again := false
		found := map[string][]policy.Finding{}
		for _, f := range errorsAmong(policy.Check(files, r.check())) {
			found[f.Policy] = append(found[f.Policy], f)
		}
		for key, findings := range found {
			fresh := r.chosen[key] != nil && r.chosen[key] == r.parsed[key]
			if fresh || r.errs[key] == nil {
				r.errs[key] = findings
			}
			// What has been in force stays, even if what it refers to is gone.
			if fresh && r.good[key] != r.chosen[key] {
				again = true
				if r.good[key] == nil {
					delete(r.chosen, key)
				} else {
					r.chosen[key] = r.good[key]
				}
			}
		}
		if !again {
			return
		}
	}
}

func (r *policyRound) check() policy.CheckOptions {
	check := r.opts.Check
	if len(r.opts.Compile.Models) > 0 {
		check.Models = append(slices.Clip(check.Models), r.opts.Compile.Models...)
	}
	for _, u := range r.others {
		if u.GetKind() != KindWorkerSet || !r.pools {
			continue
		}
		if pool, _, _ := unstructured.NestedString(u.Object, "spec", "worker", "pool"); pool != "" {
			check.Pools = append(slices.Clip(check.Pools), pool)
		}
	}
	return check
}

// load puts what was chosen in force.
func (r *policyRound) load() error {
	if r.set.Load() == nil && len(r.errs) > 0 {
		return nil // opening fails with them
	}
	var specs []*policy.Spec
	for _, key := range slices.Sorted(maps.Keys(r.chosen)) {
		specs = append(specs, r.chosen[key].Specs...)
	}
	if len(specs) == 0 && !r.opts.AllowNone {
		return ErrNoPolicy
	}
	set, err := policy.Compile(r.opts.Compile, specs...)
	if err != nil {
		return fmt.Errorf("kubernetes: policies: %w", err)
	}
	for key := range r.good {
		if r.chosen[key] == nil {
			delete(r.good, key)
		}
	}
	maps.Copy(r.good, r.chosen)
	old := r.set.Load()
	if old != nil && old.Version() == set.Version() {
		return nil
	}
	r.set.Store(set)
	r.mu.Lock()
	r.status.Version, r.status.Loaded, r.status.Loads = set.Version(), time.Now(), r.status.Loads+1
	r.mu.Unlock()
	r.opts.Logger.Info("policies are in force", "version", set.Version(), "policies", len(specs))
	if old != nil {
		r.fresh = set
	}
	return nil
}

// note keeps how things stand, and then tells what is new of it: who is told finds it
// in the status.
func (p *Policies) note(r *policyRound, err error) {
	errs := make(map[string]error, len(r.errs))
	var problems []*ObjectError
	for _, key := range slices.Sorted(maps.Keys(r.errs)) {
		ns, name, _ := strings.Cut(key, "/")
		object := origin{KindPolicy, ns, name}.problem("", lines(r.errs[key]))
		errs[key] = object
		problems = append(problems, object)
	}
	p.mu.Lock()
	p.status.Errs, p.status.Objects = errs, slices.Sorted(maps.Keys(r.chosen))
	if err == nil {
		p.status.Err = nil
	}
	p.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(r.providerErrs)) {
		var object *ObjectError
		if errors.As(r.providerErrs[key], &object) {
			problems = append(problems, object)
		}
	}
	for _, object := range problems {
		p.told.add(object)
	}
	if err != nil {
		p.away(err)
	}
}

func lines(findings []policy.Finding) string {
	all := make([]string, len(findings))
	for i, f := range findings {
		f.Policy = ""
		all[i] = strings.TrimPrefix(f.String(), "error: ")
	}
	return strings.Join(all, "\n")
}

// report writes the status of policies, providers and backends.
func (r *policyRound) report(s *session) {
	if r.opts.ReadOnly {
		return
	}
	for _, u := range r.policies {
		r.write(s, u, r.condition(keyOf(u)))
	}
	for _, u := range r.others {
		switch u.GetKind() {
		case KindProvider:
			r.write(s, u, r.providerConditions(u)...)
		case KindBackend:
			r.write(s, u, r.backendConditions(u)...)
		}
	}
}

func (r *policyRound) write(s *session, u *unstructured.Unstructured, conditions ...condition) {
	if err := r.writer.Write(s.ctx, u, nil, conditions...); err != nil && s.ctx.Err() == nil {
		r.told.add(origin{u.GetKind(), u.GetNamespace(), u.GetName()}.problem("status", err.Error()))
	}
}

func (r *policyRound) condition(key string) condition {
	findings := r.errs[key]
	c := condition{Type: ConditionAccepted, Status: len(findings) == 0, Reason: ReasonAccepted, Message: "The policy is in force."}
	switch {
	case len(findings) == 0:
	case r.chosen[key] != nil:
		c.Reason, c.Message = ReasonLastGood, lines(findings)
	default:
		c.Reason, c.Message = ReasonInvalid, lines(findings)
	}
	return c
}

func accepted(err error) condition {
	if err != nil {
		return condition{Type: ConditionAccepted, Reason: ReasonInvalid, Message: err.Error()}
	}
	return condition{Type: ConditionAccepted, Status: true, Reason: ReasonAccepted, Message: "The object is right."}
}

func (r *policyRound) backendConditions(u *unstructured.Unstructured) []condition {
	var spec GatewayBackendSpec
	c := accepted(decode(u, &spec))
	if c.Status && !slices.ContainsFunc(r.others, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == spec.Ref.Kind && o.GetName() == spec.Ref.Name && o.GetNamespace() == u.GetNamespace()
	}) {
		c = condition{
			Type: ConditionAccepted, Reason: ReasonUnresolved,
			Message: "spec.ref: there is no " + spec.Ref.Kind + " " + u.GetNamespace() + "/" + spec.Ref.Name +
				"; create it or correct the reference",
		}
	}
	return []condition{c, {
		Type: ConditionProgrammed, Reason: ReasonNotSupported,
		Message: "The object is checked only: this release does not program gateways.",
	}}
}
