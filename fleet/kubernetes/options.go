package kubernetes

import (
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kvsteer/kvsteer/fleet"
)

const defaultTimeout = 30 * time.Second

// Family chooses among the addresses of a pod with several.
type Family string

// The families. FamilyPrimary (the zero value) takes the pod's first address.
const (
	FamilyPrimary Family = ""
	FamilyIPv4    Family = "IPv4"
	FamilyIPv6    Family = "IPv6"
)

// Options are common to all that discover here. The zero value is fine.
type Options struct {
	// Template is what is said of each worker, unless annotations say otherwise.
	Template Template
	// Family is of the addresses that are used.
	Family Family
	// Adjust, if set, has the last word on a worker: it may change it, and returns
	// false to leave it out. pod is nil for endpoints and workers of sets that are none;
	// it must not be changed. Calls come one after the other, from the goroutine of Discover, which
	// they hold up.
	Adjust func(w *fleet.Worker, pod *corev1.Pod) bool
	// OnProblem is told of each object that can't be used, once until that is mended,
	// whatever failures to reach the API server come between. It is called from the
	// goroutine of Discover, which it holds up. The error is an *[ObjectError].
	OnProblem func(error)
	// Logger is told of the same. Default: silent.
	Logger *slog.Logger
	// Timeout bounds the wait for each answer of the API server. Default 30 s.
	Timeout time.Duration
}

func (o *Options) validate() error {
	if field, problem := o.Template.problem(); problem != "" {
		return fmt.Errorf("kubernetes: Options.Template.%s: %s", field, problem)
	}
	switch o.Family {
	case FamilyPrimary, FamilyIPv4, FamilyIPv6:
	default:
		return fmt.Errorf("kubernetes: Options.Family is %q; give %s or %s, or nothing for the pod's first address",
			string(o.Family), FamilyIPv4, FamilyIPv6)
	}
	if o.Timeout < 0 {
		return fmt.Errorf("kubernetes: Options.Timeout is %v; give a positive duration, or 0 for %v", o.Timeout, defaultTimeout)
	}
	return nil
}

func (o *Options) timeout() time.Duration {
	if o.Timeout == 0 {
		return defaultTimeout
	}
	return o.Timeout
}
