package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// report is what a run has shown.
type report struct {
	config                     config
	ran, drained, rested       time.Duration
	sent                       int
	counts                     [outcomes]int
	failures, causes           []string
	retried                    int
	unexplained                []string
	lateP50, lateP99, lateMost time.Duration
	tookP50, tookP99, tookMost time.Duration
	tenants                    int
	made                       int
	did                        map[string]int
	samples                    []sample
	periods                    int
	whole                      bool
	judged                     []judgement
	known                      known
	underLoad                  string
	// left says what was not zero in the end, and what does not add up.
	left []string
}

// violations are the reasons for which it has failed.
func (r *report) violations() []string {
	var all []string
	for _, j := range r.judged {
		name, _, _ := j.measure.about()
		switch {
		case j.grows:
			all = append(all, fmt.Sprintf("%s grows: by %.1f%%, at most %.1f%%", name, 100*j.growth, 100*j.atMost))
		case j.unclear:
			const format = "%s: it is not shown that it does not grow: by %.1f%%, at most %.1f%%; a longer run may tell"
			all = append(all, fmt.Sprintf(format, name, 100*j.growth, 100*j.atMost))
		}
	}
	if n := r.counts[failed]; n > 0 {
		all = append(all, fmt.Sprintf("%d requests failed without having been made to:\n    %s", n, strings.Join(r.failures, "\n    ")))
	}
	if r.known.share() < r.config.exact {
		const format = "of the caches that can be known exactly only %.0f%% are, of at least %.0f%%"
		all = append(all, fmt.Sprintf(format, 100*r.known.share(), 100*r.config.exact))
	}
	return append(all, r.left...)
}

func (r *report) print(to io.Writer) {
	c := &r.config
	fmt.Fprintf(to, "%v at %g requests/s, %v of it warm-up; %d samples at rest, ", c.length, c.rate, c.warm, len(r.samples))
	fmt.Fprintf(to, "for which arrivals stopped for %v, after %v until all were answered\n", short(r.rested), short(r.drained))
	fmt.Fprintf(to, "sent %d requests in %v: %.1f/s; late to leave: p50 %v, p99 %v, most %v\n",
		r.sent, r.ran.Round(time.Second), r.rate(), short(r.lateP50), short(r.lateP99), short(r.lateMost))
	fmt.Fprintf(to, "from due to answered: p50 %v, p99 %v, most %v\n", short(r.tookP50), short(r.tookP99), short(r.tookMost))
	for o := range outcomes {
		fmt.Fprintf(to, "  %8d %v\n", r.counts[o], o)
	}
	fmt.Fprintf(to, "%d tenants and %d workers came and went, each worker with a new adapter; workers:", r.tenants, r.made)
	for i, name := range slices.Sorted(maps.Keys(r.did)) {
		if i > 0 {
			fmt.Fprint(to, ",")
		}
		fmt.Fprintf(to, " %d %s", r.did[name], name)
	}
	fmt.Fprintf(to, "\n%s\n", r.underLoad)
	fmt.Fprintf(to, "caches: %v; of those that can be, %.1f%% are known exactly\n", &r.known, 100*r.known.share())
	fmt.Fprintf(to, "attempts that failed by no injection and were made good by others: %d\n", r.retried)
	for _, text := range r.unexplained {
		fmt.Fprintln(to, "  such as "+text)
	}
	for _, text := range r.causes {
		fmt.Fprintln(to, "failed by injection: "+text)
	}
	what := "generations of workers"
	if !r.whole {
		what = "parts, for there were too few generations of workers: chance is more than it need be"
	}
	fmt.Fprintf(to, "judged by the means of %d %s\n", r.periods, what)
	fmt.Fprintf(to, "\n| at rest, after the warm-up | beginning | end | least | most | growth | at most (95%%) | |\n%s\n",
		strings.Repeat("|---", 8)+"|")
	for _, j := range r.judged {
		name, unit, _ := j.measure.about()
		if unit != "" {
			name += ", " + unit
		}
		verdict := "flat"
		switch {
		case j.grows:
			verdict = "**grows**"
		case j.unclear:
			verdict = "**not shown**"
		}
		fmt.Fprintf(to, "| %s | %.0f | %.0f | %.0f | %.0f | %+.1f%% | %+.1f%% | %s |\n",
			name, j.first, j.last, j.least, j.most, 100*j.growth, 100*j.atMost, verdict)
	}
	violations := r.violations()
	if slow := r.slow(); slow != "" {
		violations = append(violations, slow)
	}
	if len(violations) == 0 {
		fmt.Fprintf(to, "\nverdict: nothing grows by more than %.0f%%, nothing failed that was not made to, ", 100*c.growth)
		fmt.Fprintln(to, "nothing is left in flight")
		return
	}
	fmt.Fprintln(to, "\nverdict: FAILED")
	for _, v := range violations {
		fmt.Fprintln(to, "  "+v)
	}
}

// rate is how many requests came in a second, the time included that was waited before
// samples for those under way: a machine that is too slow makes up for nothing by that.
func (r *report) rate() float64 { return float64(r.sent) / (r.ran + r.drained).Seconds() }

// slow says that the rate was not kept, "" if it was. It is the machine's fault, mostly.
func (r *report) slow() string {
	const kept = 0.98
	if r.rate() >= kept*r.config.rate {
		return ""
	}
	return fmt.Sprintf("the rate was not kept: %.1f/s instead of %g/s; this machine was too slow, or too busy", r.rate(), r.config.rate)
}

// short rounds to what is worth reading.
func short(d time.Duration) time.Duration {
	const digits = 100
	switch {
	case d > time.Second:
		return d.Round(time.Second / digits)
	case d > time.Millisecond:
		return d.Round(time.Millisecond / digits)
	default:
		return d.Round(time.Microsecond)
	}
}
