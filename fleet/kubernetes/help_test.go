package kubernetes_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kvsteer/kvsteer/fleet"
)

const ns = "inference"

// newPod is one that is ready.
func newPod(name, uid, ip string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: ns, UID: types.UID(uid), Labels: map[string]string{"app": "vllm"}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "engine", Image: "engine", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8000}}},
			{Name: "sidecar", Image: "sidecar"},
		}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "engine"}, {Name: "sidecar"}},
		},
	}
}

func notReady(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	return pod
}

func terminating(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	now := metav1.Now()
	pod.DeletionTimestamp = &now
	return pod
}

// run is a Discoverer at work, called again as a Fleet does.
type run struct {
	mu     sync.Mutex
	lists  [][]fleet.Worker
	errs   []error
	stop   context.CancelFunc
	ended  chan struct{}
	refuse error
}

func start(t *testing.T, d fleet.Discoverer) *run {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &run{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		for ctx.Err() == nil {
			err := d.Discover(ctx, func(list []fleet.Worker) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				if r.refuse != nil {
					return r.refuse
				}
				own := make([]fleet.Worker, len(list))
				for i := range list {
					own[i] = list[i].Clone()
				}
				r.lists = append(r.lists, own)
				return nil
			})
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = errors.New("Discover returned nil though its context lives")
			}
			r.mu.Lock()
			r.errs = append(r.errs, err)
			r.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(r.end)
	return r
}

func (r *run) end() {
	r.stop()
	<-r.ended
}

// last is the list in force, and how many there were.
func (r *run) last() (list []fleet.Worker, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lists) == 0 {
		return nil, 0
	}
	return r.lists[len(r.lists)-1], len(r.lists)
}

func (r *run) all() [][]fleet.Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lists)
}

func (r *run) errors() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs)
}

// short names the workers as name@epoch=URL, with a ! for those that drain.
func short(list []fleet.Worker) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = w.Name + "@" + w.Epoch + "=" + w.URL
		if w.Draining {
			out[i] += "!"
		}
	}
	return out
}

// wants waits until the list in force is this one.
func (r *run) wants(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	deadline := time.Now().Add(longest)
	for time.Now().Before(deadline) {
		list, n := r.last()
		if got = short(list); n > 0 && slices.Equal(got, want) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("the list is\n  %q\nand not\n  %q\nerrors: %v", got, want, r.errors())
}

var listAll metav1.ListOptions
