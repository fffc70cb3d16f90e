package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiServer answers lists and watches as a kube-apiserver does, as far as informers
// ask, and fails in the ways that one does. The real one is in the e2e test.
type apiServer struct {
	*httptest.Server

	mu      sync.Mutex
	rv      int
	objects map[string]*unstructured.Unstructured // by resource/namespace/name
	log     []logged
	// oldest is the resource version that watches can begin from.
	oldest int
	fault  string
	change chan struct{} // closed and replaced at each change
	// lists and watches count requests that were answered, patches are of status.
	lists, watches int
	patches        []string
	bookmarks      int
	// hold, if set, is what patches wait for.
	hold chan struct{}
}

// logged is one change of an object: before is nil for one that is new, after for one
// that is gone.
type logged struct {
	rv            int
	resource      string
	before, after *unstructured.Unstructured
}

// The faults.
const (
	faultDown    = "down"    // connections are cut without an answer
	faultSilent  = "silent"  // requests are taken and not answered
	faultError   = "error"   // 500
	faultGarbage = "garbage" // something that is no answer
	faultDenied  = "denied"  // 403
	faultEmpty   = "empty"   // an answer with nothing in it
	faultKind    = "kind"    // a list of something else
)

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]*unstructured.Unstructured{}, rv: 100, change: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.turn("closed") // ends watches
		s.Close()
	})
	return s
}

func (s *apiServer) config() *rest.Config {
	return &rest.Config{Host: s.URL, Transport: &http.Transport{DisableKeepAlives: true}, QPS: -1}
}

func (s *apiServer) clients(t *testing.T) (clientset.Interface, dynamic.Interface) {
	t.Helper()
	c, err := clientset.NewForConfig(s.config())
	require.NoError(t, err)
	d, err := dynamic.NewForConfig(s.config())
	require.NoError(t, err)
	return c, d
}

// put adds or changes an object; typed ones need their TypeMeta.
func (s *apiServer) put(resource string, obj runtime.Object) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(resource, &unstructured.Unstructured{Object: raw})
}

func (s *apiServer) putLocked(resource string, u *unstructured.Unstructured) {
	s.rv++
	u.SetResourceVersion(strconv.Itoa(s.rv))
	key := resource + "/" + u.GetNamespace() + "/" + u.GetName()
	s.log = append(s.log, logged{s.rv, resource, s.objects[key], u})
	s.objects[key] = u
	s.changed()
}

func (s *apiServer) remove(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(resource + "/" + namespace + "/" + name)
}

func (s *apiServer) removeLocked(key string) {
	was, ok := s.objects[key]
	if !ok {
		return
	}
	s.rv++
	resource, _, _ := strings.Cut(key, "/")
	s.log = append(s.log, logged{s.rv, resource, was, nil})
	delete(s.objects, key)
	s.changed()
}

// turn sets the fault, and cuts all watches.
func (s *apiServer) turn(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
	s.changed()
}

// compact forgets what was: watches that begin before now are refused.
func (s *apiServer) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	s.oldest = s.rv
	s.changed()
}

func (s *apiServer) changed() {
	close(s.change)
	s.change = make(chan struct{})
}

func (s *apiServer) count() (lists, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.watches
}

// ServeHTTP answers one request.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fault, change := s.fault, s.change
	s.mu.Unlock()
	switch fault {
	case "":
	case faultSilent:
		select {
		case <-r.Context().Done():
		case <-change:
		}
		panic(http.ErrAbortHandler)
	case faultError:
		http.Error(w, "the server is unwell", http.StatusInternalServerError)
		return
	case faultGarbage:
		fmt.Fprint(w, "{]}")
		return
	case faultEmpty:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
		return
	case faultKind:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "999"}, "items": []}`)
		return
	case faultDenied:
		status(w, http.StatusForbidden, metav1.StatusReasonForbidden, "may not")
		return
	default:
		panic(http.ErrAbortHandler)
	}
	resource, namespace, name := parse(r.URL.Path)
	switch {
	case r.Method == http.MethodPatch:
		s.patch(w, r, resource, namespace, name)
	case r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1":
		s.watch(w, r, resource, namespace)
	default:
		s.list(w, r, resource, namespace)
	}
}

// parse takes /api/v1/... and /apis/GROUP/VERSION/... apart.
func parse(path string) (resource, namespace, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	parts = parts[2:]
	if strings.HasPrefix(path, "/apis/") {
		group := strings.Split(strings.Trim(path, "/"), "/")[1]
		parts = parts[1:]
		defer func() {
			if group == "inference.networking.k8s.io" {
				resource = "gateway-" + resource
			}
		}()
	}
	if parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	resource = parts[0]
	if len(parts) > 1 {
		name = parts[1]
	}
	return resource, namespace, name
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure(code, reason, message))
}

func failure(code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Message: message, Code: int32(code),
	}
}

// matches reports whether an object is among those that were asked for.
func matches(r *http.Request, namespace string, u *unstructured.Unstructured) bool {
	if u == nil || namespace != "" && u.GetNamespace() != namespace {
		return false
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	_, name, byName := strings.Cut(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	return selector.Matches(labels.Set(u.GetLabels())) && (!byName || u.GetName() == name)
}

func (s *apiServer) list(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	var items []map[string]any
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if u := s.objects[key]; strings.HasPrefix(key, resource+"/") && matches(r, namespace, u) {
			items = append(items, u.Object)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": apiVersion(resource), "kind": kindOf(resource) + "List", "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.rv)}, "items": items,
	})
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	s.watches++
	if from < s.oldest {
		s.mu.Unlock()
		status(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
		return
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flusher := w.(http.Flusher)
	flusher.Flush()
	enc := json.NewEncoder(w)
	for {
		s.mu.Lock()
		change, fault := s.change, s.fault
		var events []map[string]any
		for _, e := range s.log {
			if e.rv > from && e.resource == resource {
				events = append(events, event(r, namespace, e)...)
			}
		}
		if s.oldest > from && s.oldest == s.rv {
			events = []map[string]any{{"type": "ERROR", "object": failure(http.StatusGone, metav1.StatusReasonExpired, "too old")}}
		}
		if len(events) == 0 && s.rv > from && r.URL.Query().Get("allowWatchBookmarks") == "true" {
			s.bookmarks++
			events = append(events, map[string]any{"type": "BOOKMARK", "object": map[string]any{
				"apiVersion": apiVersion(resource), "kind": kindOf(resource), "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.rv)},
			}})
		}
		from = s.rv
		s.mu.Unlock()
		if fault != "" {
			return
		}
		for _, e := range events {
			_ = enc.Encode(e)
		}
		flusher.Flush()
		select {
		case <-change:
		case <-r.Context().Done():
			return
		}
	}
}

func apiVersion(resource string) string {
	switch resource {
	case "pods":
		return "v1"
	case "endpointslices":
		return "discovery.k8s.io/v1"
	case "gateway-inferencepools":
		return "inference.networking.k8s.io/v1"
	default:
		return "kvsteer.dev/v1alpha1"
	}
}

func kindOf(resource string) string {
	return map[string]string{
		"pods": "Pod", "endpointslices": "EndpointSlice", "gateway-inferencepools": "InferencePool", "inferencepools": "InferencePool",
		"inferenceworkersets": "InferenceWorkerSet", "inferencepolicies": "InferencePolicy", "inferenceproviders": "InferenceProvider",
		"gatewaybackends": "GatewayBackend",
	}[resource]
}

// event is what a change looks like for who asked for some objects only.
func event(r *http.Request, namespace string, e logged) []map[string]any {
	before, after := matches(r, namespace, e.before), matches(r, namespace, e.after)
	switch {
	case after && before:
		return []map[string]any{{"type": "MODIFIED", "object": e.after.Object}}
	case after:
		return []map[string]any{{"type": "ADDED", "object": e.after.Object}}
	case before:
		last := e.before.DeepCopy()
		last.SetResourceVersion(strconv.Itoa(e.rv))
		return []map[string]any{{"type": "DELETED", "object": last.Object}}
	}
	return nil
}

// patch merges a status.
func (s *apiServer) patch(w http.ResponseWriter, r *http.Request, resource, namespace, name string) {
	if s.hold != nil {
		<-s.hold
	}
	var patch map[string]any
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.objects[resource+"/"+namespace+"/"+name]
	if !ok {
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such object")
		return
	}
	if rv, _, _ := unstructured.NestedString(patch, "metadata", "resourceVersion"); rv != u.GetResourceVersion() {
		status(w, http.StatusConflict, metav1.StatusReasonConflict, "changed meanwhile")
		return
	}
	next := u.DeepCopy()
	next.Object["status"] = patch["status"]
	text, err := json.Marshal(patch["status"])
	if err != nil {
		panic(err)
	}
	s.patches = append(s.patches, name+" "+string(text))
	s.putLocked(resource, next)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(next.Object)
}

// longest is longer than any machine takes: client-go backs off, for up to half a minute.
const longest = 2 * time.Minute

// waitFor waits until ok, for longer than any machine takes.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, longest, 2*time.Millisecond, what)
}
