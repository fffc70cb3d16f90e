package kubernetes

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/file"
)

// Provider is what an InferenceProvider says: its spec is that of a manifest of package
// providers/file. opts say how to read it; a credential's Secret is for opts.Secret, because
// this package reads no Secrets. The error is an *[ObjectError].
func Provider(u *unstructured.Unstructured, opts file.Options) (providers.Provider, error) {
	at := origin{KindProvider, u.GetNamespace(), u.GetName()}
	text, err := json.Marshal(map[string]any{
		"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": map[string]any{"name": u.GetName()}, "spec": u.Object["spec"],
	})
	if err != nil { // what came as JSON is JSON
		return providers.Provider{}, at.problem("", err.Error())
	}
	path, _, err := unstructured.NestedString(u.Object, "spec", "credentials", "file")
	if err == nil && path != "" && !strings.HasPrefix(path, "/") && !filepath.IsAbs(path) {
		return providers.Provider{}, at.problem("spec.credentials.file", "it is relative, but to nothing; write all of the path")
	}
	list, err := file.Parse(u.GetName(), text, opts)
	switch {
	case err != nil:
		return providers.Provider{}, at.problem("", problemsOf(err))
	case len(list) != 1:
		return providers.Provider{}, at.problem("", "it is no InferenceProvider of "+GroupVersion.String())
	default:
		return list[0], nil
	}
}

// problemsOf are what is wrong, without the places in text that nobody wrote.
func problemsOf(err error) string {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	var out []string
	for _, e := range list {
		var wrong *file.Error
		if errors.As(e, &wrong) {
			out = append(out, wrong.Problem)
		} else {
			out = append(out, e.Error())
		}
	}
	return strings.Join(out, "\n")
}

// served is what an InferenceProvider said. It is read once, so that a kind that a program
// makes stays one thing.
type served struct {
	uid        types.UID
	generation int64
	provider   providers.Provider
	err        error
}

// serve gives the set what the providers say. What is wrong of one leaves it as it was, or
// out.
func (r *policyRound) serve() {
	p := r.Policies
	r.providerErrs = map[string]error{}
	how := r.opts.ReadProviders
	if r.opts.Providers == nil && how.Secret == nil {
		how.Secret = func(string, string) (providers.CredentialSource, error) { return nil, nil } //nolint:nilnil // nobody uses it
	}
	read := map[string]*served{}
	for _, u := range r.others {
		if u.GetKind() != KindProvider {
			continue
		}
		key := keyOf(u)
		s := p.read[key]
		if s == nil || s.uid != u.GetUID() || s.generation != u.GetGeneration() || u.GetGeneration() == 0 {
			s = &served{uid: u.GetUID(), generation: u.GetGeneration()}
			s.provider, s.err = Provider(u, how)
		}
		read[key] = s
		if s.err != nil {
			r.providerErrs[key] = s.err
		}
	}
	p.read = read
	if r.opts.Providers == nil {
		return
	}
	list := map[string]*served{}
	for key, s := range read {
		if s.err != nil {
			s = p.inForce[key]
		}
		if s != nil {
			list[key] = s
		}
	}
	if maps.Equal(list, p.inForce) && p.inForce != nil {
		return
	}
	r.update(list)
}

// update puts providers in force. Each that the set refuses is taken back.
func (r *policyRound) update(list map[string]*served) {
	for range 2*len(list) + 1 {
		keys := slices.Sorted(maps.Keys(list))
		all := make([]providers.Provider, len(keys))
		for i, key := range keys {
			all[i] = list[key].provider
		}
		err := r.opts.Providers.Update(all)
		var wrong *providers.ConfigError
		switch {
		case err == nil:
			r.inForce = list
			r.opts.Logger.Info("providers are in force", "providers", len(all))
			return
		case !errors.As(err, &wrong) || wrong.Index < 0 || wrong.Index >= len(keys):
			for _, key := range keys {
				r.blame(key, err.Error())
			}
			return
		}
		key := keys[wrong.Index]
		r.blame(key, strings.TrimPrefix(wrong.Error(), "providers: "))
		if good := r.inForce[key]; good != nil && good != list[key] {
			list[key] = good
		} else {
			delete(list, key)
		}
	}
}

func (r *policyRound) blame(key, problem string) {
	if r.providerErrs[key] == nil {
		ns, name, _ := strings.Cut(key, "/")
		r.providerErrs[key] = origin{KindProvider, ns, name}.problem("", problem)
	}
}

func (r *policyRound) providerConditions(u *unstructured.Unstructured) []condition {
	key := keyOf(u)
	err := r.providerErrs[key]
	var object *ObjectError
	if errors.As(err, &object) {
		err = errors.New(strings.TrimPrefix(object.Field+": "+object.Problem, ": "))
	}
	c := accepted(err)
	inForce := r.inForce[key] != nil
	if err != nil && inForce {
		c.Reason = ReasonLastGood
	}
	switch {
	case r.opts.Providers == nil:
		return []condition{c, {
			Type: ConditionProgrammed, Reason: ReasonNotSupported,
			Message: "Policies may name the provider, but this gateway sends no requests to providers of the cluster.",
		}}
	case inForce:
		return []condition{c, {Type: ConditionProgrammed, Status: true, Reason: ReasonProgrammed, Message: "Requests may be sent to it."}}
	default:
		return []condition{c, {Type: ConditionProgrammed, Reason: ReasonInvalid, Message: "No requests are sent to it."}}
	}
}
