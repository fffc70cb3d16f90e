package doctor

import (
	"context"
	"net/http"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

const pathModels = "/v1/models"

// checkHealth: does the worker answer, and does the router route to it?
func checkHealth(ctx context.Context, p *patient) findings {
	path := "/health"
	a, err := p.ask(ctx, http.MethodGet, path)
	if err == nil && a.absent() {
		path = pathModels
		a, err = p.ask(ctx, http.MethodGet, path)
	}
	if err != nil {
		return fault("%s: %v", path, err).
			advise("Check that the engine runs, that url is right, and that nothing between here and there blocks the port.")
	}
	p.reachable, p.first = true, a
	took := a.got.Sub(a.sent)
	facts := Facts{"status": a.status, "took_ms": milliseconds(took)}
	switch {
	case a.status/100 == 3:
		return fault("%s answers with a redirect (status %d), which the router does not follow", path, a.status).
			advise("Write the address that it redirects to as url.").with(facts)
	case a.refused() && path == pathModels:
		return ok("answers in %s", show(took)).with(facts) // it lives; models says what is wrong
	case !a.ok():
		return fault("%s answers with status %d: the router sends it nothing", path, a.status).
			advise("Look into the engine's log: it starts up, shuts down, or its engine process died.").with(facts)
	case p.member != nil && p.member.Health().State == fleet.StateUnhealthy:
		return fault("the router sends it nothing: %v", p.member.Health().Err).
			advise("Wake a sleeping engine with POST /wake_up; with anything else, run this again.").with(facts)
	case p.worker.Draining:
		return warning("draining: the router sends it nothing new").
			advise("Take draining out of the fleet file when that is over.").with(facts)
	}
	return ok("%s answers in %s", path, show(took)).with(facts)
}

// maxSkew is how far an engine's clock may be off. An HTTP date is of whole
// seconds, so that less is hard to tell.
const maxSkew = 2 * time.Second

// checkClock: do the engine's clock and this machine's agree?
func checkClock(_ context.Context, p *patient) findings {
	date, err := http.ParseTime(p.first.header.Get("Date"))
	if err != nil {
		return skipped("its answers carry no date")
	}
	// The date was somewhere in the second that begins with it.
	var skew time.Duration
	switch {
	case date.After(p.first.got):
		skew = date.Sub(p.first.got)
	case date.Add(time.Second).Before(p.first.sent):
		skew = date.Add(time.Second).Sub(p.first.sent)
	}
	facts := Facts{"skew_s": skew.Seconds()}
	if skew.Abs() <= maxSkew {
		return ok("agrees with this machine's").with(facts)
	}
	direction := "ahead of"
	if skew < 0 {
		direction = "behind"
	}
	return warning("%v %s this machine's", skew.Abs().Round(time.Second), direction).
		advise("Let both keep time by NTP. Routing goes on, but templates that print the date give other prompts here than there, " +
			"and logs can't be compared.").with(facts)
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// show rounds a duration to what a reader wants to know.
func show(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}
