package kubernetes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
)

// What was deleted, replaced and added while nobody watched is found out, and until
// then the last list stays.
func TestWhatWasMissedIsMadeUpFor(t *testing.T) {
	for _, fault := range []string{faultDown, faultError, faultGarbage, faultDenied, faultSilent, faultEmpty, faultKind} {
		t.Run(fault, func(t *testing.T) {
			s := newAPIServer(t)
			s.put("pods", newPod("a", "u1", "10.0.0.1"))
			s.put("pods", newPod("b", "u2", "10.0.0.2"))
			d := podsOf(t, s)
			d.Options.Timeout = 2 * time.Second // if the machine takes longer the first list comes at another try
			r := start(t, d)
			both := []string{"inference/a@u1.0=http://10.0.0.1:8000", "inference/b@u2.0=http://10.0.0.2:8000"}
			r.wants(t, both...)

			s.turn(fault)
			waitFor(t, "the failure is told", func() bool { return len(r.errors()) > 1 })
			require.ErrorContains(t, r.errors()[0], "pods in namespace inference")
			s.remove("pods", ns, "a")
			s.remove("pods", ns, "b")
			s.put("pods", newPod("b", "u3", "10.0.0.1")) // the name of one at the address of the other
			s.compact()
			r.wants(t, both...)
			s.turn("")
			r.wants(t, "inference/b@u3.0=http://10.0.0.1:8000")
			for _, list := range r.all() {
				require.NotEmpty(t, list, "nobody is removed by a failure")
			}
		})
	}
}

// A watch that is refused or ended as too old is followed by a list, and is no error.
func TestWatchesThatAreTooOld(t *testing.T) {
	s := newAPIServer(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	r := start(t, podsOf(t, s))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000")
	for i := range 3 {
		s.mu.Lock()
		s.removeLocked("pods/" + ns + "/a")
		s.rv++
		s.oldest = s.rv // before the watch could tell
		s.log = nil
		s.changed()
		s.mu.Unlock()
		r.wants(t)
		s.put("pods", newPod("a", fmt.Sprint("v", i), "10.0.0.1"))
		r.wants(t, fmt.Sprintf("inference/a@v%d.0=http://10.0.0.1:8000", i))
	}
	require.Empty(t, r.errors())
}

// Bookmarks move the place where the next watch begins, and are no change.
func TestBookmarks(t *testing.T) {
	s := newAPIServer(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	r := start(t, podsOf(t, s))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000")
	other := newPod("x", "u9", "10.0.0.9")
	other.Labels = nil
	s.put("pods", other) // of no interest: the server sends a bookmark
	waitFor(t, "a bookmark", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.bookmarks > 0 })
	s.put("pods", newPod("b", "u2", "10.0.0.2"))
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000", "inference/b@u2.0=http://10.0.0.2:8000")
	lists, _ := s.count()
	require.Equal(t, 1, lists)
	require.Empty(t, r.errors())
}

// The fleet shows why its list may be old, and that it isn't any more.
func TestFleetErrSaysThatTheServerIsAway(t *testing.T) {
	s := newAPIServer(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	f, err := fleet.New(fleet.Options{Discoverer: podsOf(t, s)})
	require.NoError(t, err)
	defer f.Close()
	waitFor(t, "the worker", func() bool { return f.Snapshot().Member("inference/a") != nil })
	require.NoError(t, f.Err())
	s.turn(faultDown)
	waitFor(t, "Err", func() bool { return f.Err() != nil })
	require.ErrorContains(t, f.Err(), "the last list stays in force")
	require.NotNil(t, f.Snapshot().Member("inference/a"))
	s.turn("")
	waitFor(t, "no Err", func() bool { return f.Err() == nil })
}

// A list of another kind, as of something that answers in the API server's place, removes
// nobody.
func TestListsOfAnotherKind(t *testing.T) {
	s := newAPIServer(t)
	c, objects := s.clients(t)
	s.put("pods", newPod("a", "u1", "10.0.0.1"))
	s.put("gateway-inferencepools", object(t, 1, strings.ReplaceAll(poolText, "APP", "vllm")))
	d := &kubernetes.Pool{Client: c, Objects: objects, Namespace: ns, Name: "pool"}
	r := start(t, d)
	r.wants(t, "inference/a@u1.0=http://10.0.0.1:8000")
	s.turn(faultKind)
	var wrong *kubernetes.KindError
	waitFor(t, "it is told", func() bool {
		for _, err := range r.errors() {
			if errors.As(err, &wrong) {
				return true
			}
		}
		return false
	})
	require.Equal(t, &kubernetes.KindError{Got: "ConfigMapList", Want: "InferencePoolList"}, wrong)
	for _, list := range r.all() {
		require.NotEmpty(t, list)
	}
}
