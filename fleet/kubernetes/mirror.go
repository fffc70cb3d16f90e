package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// reader lists and watches one kind of objects.
type reader struct {
	// what says in errors what is read, such as "pods in namespace inference".
	what    string
	example runtime.Object
	// kind is theirs, where client-go does not see to it; else "".
	kind  string
	list  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// labels and fields narrow it.
	labels, fields string
	timeout        time.Duration
	// failed is told of each failure but those that reading on mends.
	failed func(error)
}

var _ cache.ListerWatcherWithContext = (*reader)(nil)

// List implements [cache.ListerWatcher].
func (r *reader) List(opts metav1.ListOptions) (runtime.Object, error) {
	return r.ListWithContext(context.Background(), opts)
}

// Watch implements [cache.ListerWatcher].
func (r *reader) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return r.WatchWithContext(context.Background(), opts)
}

// IsWatchListSemanticsUnSupported makes the reflector list before it watches: a list
// has a deadline.
func (*reader) IsWatchListSemanticsUnSupported() bool { return true }

// errSilent: the API server took the request and gave no answer.
var errSilent = errors.New("no answer within the timeout; is the API server overloaded, or something between?")

// KindError says that the API server, or what answers for it, listed objects of another
// kind than was asked for. What it listed is ignored, and the last list stays.
type KindError struct{ Got, Want string }

// Error implements error.
func (e *KindError) Error() string {
	return fmt.Sprintf("the answer is a %q and not a %q; does something else answer for the API server?", e.Got, e.Want)
}

// errNoList: what came is not what an API server answers with.
var errNoList = errors.New("the answer is no list, for it has no resourceVersion; does something else answer for the API server?")

// ListWithContext implements [cache.ListerWithContext].
func (r *reader) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	// "0" would be served from whatever the API server has in its cache, and of several
	// servers one may lag behind what we have seen: what was deleted would be back.
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = ""
	}
	opts.LabelSelector, opts.FieldSelector = r.labels, r.fields
	limited, cancel := context.WithTimeoutCause(ctx, r.timeout, errSilent)
	defer cancel()
	list, err := r.list(limited, opts)
	if err != nil {
		return list, r.fail(ctx, "list", err, context.Cause(limited))
	}
	// client-go makes an empty list of an answer that is something else, and of {}.
	if m, err := meta.ListAccessor(list); err != nil || m.GetResourceVersion() == "" {
		return nil, r.fail(ctx, "list", errNoList, nil)
	}
	// Of custom resources it takes a list of any kind.
	if got := list.GetObjectKind().GroupVersionKind().Kind; r.kind != "" && got != r.kind+"List" {
		return nil, r.fail(ctx, "list", &KindError{Got: got, Want: r.kind + "List"}, nil)
	}
	return list, nil
}

// WatchWithContext implements [cache.WatcherWithContext]. Where connections are cut without
// an answer, client-go asks ten times more, a second apart, before it says so.
func (r *reader) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.LabelSelector, opts.FieldSelector = r.labels, r.fields
	limited, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(r.timeout, func() { cancel(errSilent) })
	w, err := r.watch(limited, opts)
	if err != nil {
		timer.Stop()
		err = r.fail(ctx, "watch", err, context.Cause(limited))
		cancel(nil)
		return nil, err
	}
	// The server ends a watch after this long. One that doesn't is not there any more.
	bound := r.timeout
	if opts.TimeoutSeconds != nil {
		bound += time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	timer.Reset(bound)
	return &boundedWatch{Interface: w, stop: func() {
		timer.Stop()
		cancel(nil)
	}}, nil
}

// fail reports an error and returns it with what there is to do.
func (r *reader) fail(ctx context.Context, verb string, err, cause error) error {
	if ctx.Err() != nil {
		return err
	}
	if errors.Is(cause, errSilent) {
		err = errors.Join(cause, err)
	}
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	wrapped := fmt.Errorf("kubernetes: can't %s %s: %w%s", verb, r.what, err, advice(err))
	if !expired { // else the reflector lists anew
		r.failed(wrapped)
	}
	return wrapped
}

func advice(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "; grant the verbs list and watch, as examples/kubernetes/rbac.yaml does"
	case apierrors.IsUnauthorized(err):
		return "; the credentials are not, or no longer, valid"
	case apierrors.IsNotFound(err):
		return "; the cluster does not have this kind of object: install its CustomResourceDefinition"
	default:
		return ""
	}
}

// boundedWatch frees what bounds a watch when it is stopped.
type boundedWatch struct {
	watch.Interface

	stop func()
}

// Stop ends the watch.
func (w *boundedWatch) Stop() {
	w.Interface.Stop()
	w.stop()
}

// mirror is a local copy of what a reader reads.
type mirror struct {
	store  cache.Store
	synced atomic.Bool
	stop   context.CancelFunc
	// used in the present round, see session.
	used bool
}

// syncPoll is how often it is looked whether the first list has come.
const syncPoll = 20 * time.Millisecond

// mirror starts to copy. changed is called after each change, and once when the first
// list is complete.
func (s *session) mirror(r *reader, handler cache.ResourceEventHandler) *mirror {
	ctx, stop := context.WithCancel(s.ctx)
	m := &mirror{stop: stop}
	r.timeout, r.failed = s.opts.timeout(), func(err error) {
		if ctx.Err() == nil {
			s.fail(err)
		}
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: r, ObjectType: r.example, Handler: handler, Transform: strip,
	})
	m.store = store
	// What client-go would write to the standard error is told by our own errors.
	ctx = klog.NewContext(ctx, logr.Discard())
	s.wg.Go(func() { controller.RunWithContext(ctx) })
	s.wg.Go(func() {
		ticker := time.NewTicker(syncPoll)
		defer ticker.Stop()
		deadline := time.NewTimer(2 * s.opts.timeout()) //nolint:mnd // of a list in pages
		defer deadline.Stop()
		for !controller.HasSynced() {
			select {
			case <-ctx.Done():
				return
			case <-deadline.C:
				s.fail(fmt.Errorf("kubernetes: can't list %s: %w", r.what, errSilent))
				return
			case <-ticker.C:
			}
		}
		m.synced.Store(true)
		s.touch()
	})
	return m
}

// strip drops what is large and of no use.
func strip(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, nil
}
