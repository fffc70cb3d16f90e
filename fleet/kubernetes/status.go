package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// statusWriter writes the status of our custom resources. Several gateways may watch
// one object: who finds written what they would write leaves it alone, and nobody
// writes again what they wrote last, so that two that do not agree don't take turns
// for ever. It is for use by one goroutine at a time.
type statusWriter struct {
	// Client needs the verb patch for the subresource status.
	Client dynamic.Interface
	// Timeout bounds each request. Default 30 s.
	Timeout time.Duration
	// Now tells the time of transitions. Default time.Now.
	Now func() time.Time

	// written is what was written last of an object, by its uid.
	written map[types.UID]string
}

// maxWritten bounds what is remembered; then everything may be written once more.
const maxWritten = 1 << 14

// maxMessage is the longest message of a condition that the API allows, in bytes of
// ours.
const maxMessage = 8 << 10

// condition is one to be written.
type condition struct {
	Type    string
	Status  bool
	Reason  string
	Message string
}

// Write writes the status of u, unless it is that already. An object that was changed
// or deleted meanwhile is left alone, which is no error: there will be another event.
func (w *statusWriter) Write(ctx context.Context, u *unstructured.Unstructured, workers *int, conditions ...condition) error {
	var had Status
	if raw, ok, err := unstructured.NestedMap(u.Object, "status"); err == nil && ok {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &had) // what can't be read is written anew
	}
	want := Status{ObservedGeneration: u.GetGeneration(), Workers: workers, Conditions: w.merge(&had, u.GetGeneration(), conditions)}
	if equality.Semantic.DeepEqual(had, want) {
		return nil
	}
	mine := strconv.FormatInt(u.GetGeneration(), 10) + " " + fingerprint(workers, conditions)
	if w.written[u.GetUID()] == mine {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": u.GetResourceVersion()}, "status": want,
	})
	if err != nil {
		return fmt.Errorf("kubernetes: the status of %s: %w", describe(u), err)
	}
	timeout := w.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err = w.Client.Resource(Resource(u.GroupVersionKind().GroupVersion(), u.GetKind())).Namespace(u.GetNamespace()).
		Patch(ctx, u.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kvsteer"}, "status")
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("kubernetes: can't write the status of %s: %w; grant the verb patch for it, as examples/kubernetes/rbac.yaml does",
			describe(u), err)
	case err != nil:
		return fmt.Errorf("kubernetes: can't write the status of %s: %w", describe(u), err)
	}
	if w.written == nil || len(w.written) >= maxWritten {
		w.written = map[types.UID]string{}
	}
	w.written[u.GetUID()] = mine
	return nil
}

func describe(u *unstructured.Unstructured) string {
	return u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
}

func fingerprint(workers *int, conditions []condition) string {
	out := fmt.Sprint(conditions)
	if workers != nil {
		out = strconv.Itoa(*workers) + " " + out
	}
	return out
}

// merge keeps conditions of others, and the times of those that are as they were.
func (w *statusWriter) merge(had *Status, generation int64, conditions []condition) []metav1.Condition {
	out := slices.Clone(had.Conditions)
	for _, c := range conditions {
		now := time.Now
		if w.Now != nil {
			now = w.Now
		}
		next := metav1.Condition{
			Type: c.Type, Status: metav1.ConditionFalse, Reason: c.Reason, Message: clip(c.Message),
			ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now()).Rfc3339Copy(),
		}
		if c.Status {
			next.Status = metav1.ConditionTrue
		}
		i := slices.IndexFunc(out, func(o metav1.Condition) bool { return o.Type == c.Type })
		if i < 0 {
			out = append(out, next)
			continue
		}
		if out[i].Status == next.Status {
			next.LastTransitionTime = out[i].LastTransitionTime
		}
		out[i] = next
	}
	return out
}

func clip(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	const more = "\n..."
	return string([]rune(message[:maxMessage-len(more)-4])) + more //nolint:mnd // a rune cut in two grows
}
