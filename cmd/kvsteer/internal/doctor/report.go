package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

// Status is how a check went.
type Status string

// The statuses, from best to worst.
const (
	OK      Status = "ok"
	Skipped Status = "skipped" // not looked at; the summary says why
	Warning Status = "warning" // it works, and less well than it could
	Fault   Status = "fault"   // it does not work
)

// ReportVersion is Report.Version. It changes when a program that reads reports
// would have to.
const ReportVersion = 1

// Report is the outcome for a fleet. Its JSON form is described in docs/doctor.md.
type Report struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	// Status is the worst of all findings, where Skipped counts as OK.
	Status Status `json:"status"`
	Counts Counts `json:"counts"`
	// Files are findings about the local files of models, which are no worker's.
	Files   []Finding      `json:"files"`
	Workers []WorkerReport `json:"workers"`
}

// Counts are findings by status.
type Counts struct {
	OK      int `json:"ok"`
	Skipped int `json:"skipped"`
	Warning int `json:"warning"`
	Fault   int `json:"fault"`
}

// WorkerReport is the outcome for a worker.
type WorkerReport struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Engine is the kind of engine, "" if it could not be found out. Version is what
	// it says of itself.
	Engine  fleet.Engine `json:"engine"`
	Version string       `json:"engine_version"`
	Status  Status       `json:"status"`
	Checks  []Finding    `json:"checks"`
}

// Finding is one thing that was looked at.
type Finding struct {
	// Check is the name of the check; Subject what of the worker it is about where
	// there are several: an address, a model, a rank.
	Check   string `json:"check"`
	Subject string `json:"subject,omitempty"`
	Status  Status `json:"status"`
	// Summary says what was seen, Advice what to do if that is not as it should be.
	Summary string `json:"summary"`
	Advice  string `json:"advice,omitempty"`
	// Facts are the numbers behind it, for programs.
	Facts Facts `json:"facts,omitempty"`

	// after names the checks whose fault would explain it.
	after []string
}

// Facts are values by name.
type Facts map[string]any

// findings are what a check returns: mostly one.
type findings []Finding

// ok, skipped, warning and fault are the findings of a check that has one thing to
// say.
func ok(format string, args ...any) findings      { return one(OK, format, args) }
func skipped(format string, args ...any) findings { return one(Skipped, format, args) }
func warning(format string, args ...any) findings { return one(Warning, format, args) }
func fault(format string, args ...any) findings   { return one(Fault, format, args) }

func one(s Status, format string, args []any) findings {
	return findings{{Status: s, Summary: fmt.Sprintf(format, args...)}}
}

// advise, about and with complete all of them.
func (f findings) advise(advice string) findings {
	for i := range f {
		f[i].Advice = advice
	}
	return f
}

func (f findings) about(subject string) findings {
	for i := range f {
		f[i].Subject = subject
	}
	return f
}

// after says that a fault in one of these checks explains all of them.
func (f findings) after(checks ...string) findings {
	for i := range f {
		f[i].after = checks
	}
	return f
}

// explained takes what follows from a fault that was found before for no complaint of
// its own: who mends the cause should not look for another one.
func (f findings) explained(before findings) {
	for i := range f {
		if f[i].Status != Warning && f[i].Status != Fault {
			continue
		}
		for _, cause := range f[i].after {
			if before.faulty(cause) {
				f[i].Status, f[i].Advice = Skipped, ""
				f[i].Summary = "as " + cause + " explains: " + f[i].Summary
				break
			}
		}
	}
}

// faulty reports whether a check has found a fault.
func (f findings) faulty(check string) bool {
	return slices.ContainsFunc(f, func(one Finding) bool { return one.Check == check && one.Status == Fault })
}

func (f findings) with(facts Facts) findings {
	for i := range f {
		f[i].Facts = facts
	}
	return f
}

func newReport(at time.Time, files findings, patients []*patient) *Report {
	r := &Report{Version: ReportVersion, At: at.UTC().Truncate(time.Second), Files: files, Workers: []WorkerReport{}}
	all := slices.Clone(files)
	for _, p := range patients {
		r.Workers = append(r.Workers, WorkerReport{
			Name: p.worker.Name, URL: p.worker.URL, Engine: p.engine, Version: p.version,
			Status: worst(OK, p.found), Checks: p.found,
		})
		all = append(all, p.found...)
	}
	r.Status = worst(OK, all)
	r.Counts.add(all)
	return r
}

func (c *Counts) add(found findings) {
	for i := range found {
		switch found[i].Status {
		case OK:
			c.OK++
		case Skipped:
			c.Skipped++
		case Warning:
			c.Warning++
		case Fault:
			c.Fault++
		default:
		}
	}
}

// worst is the worst of a status and those of findings.
func worst(s Status, found findings) Status {
	for i := range found {
		switch found[i].Status {
		case Fault:
			return Fault
		case Warning:
			s = Warning
		case OK, Skipped:
		default:
		}
	}
	return s
}
