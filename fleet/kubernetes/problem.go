package kubernetes

import (
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
)

// ErrInvalidObject is what every *ObjectError wraps.
var ErrInvalidObject = errors.New("kubernetes: invalid object")

// ObjectError says why an object of the cluster is not used, or what of it. Seen in
// Options.OnProblem and in logs by whoever wrote the object: correct the named field.
type ObjectError struct {
	// Kind, Namespace and Name say which object it is.
	Kind, Namespace, Name string
	// Field is the key as it is written, for example "annotation kvsteer.dev/role".
	Field string
	// Problem says what is wrong and what to do about it.
	Problem string
}

// Error names the object, the field and the remedy.
func (e *ObjectError) Error() string {
	var b strings.Builder
	b.WriteString("kubernetes: " + e.Kind + " ")
	if e.Namespace != "" {
		b.WriteString(e.Namespace + "/")
	}
	b.WriteString(e.Name + ": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// Unwrap makes errors.Is(err, ErrInvalidObject) true.
func (e *ObjectError) Unwrap() error { return ErrInvalidObject }

// maxTold bounds what is remembered of problems: beyond it they are told again.
const maxTold = 4096

// problems tells each problem once, until it is gone.
type problems struct {
	opts *Options
	told map[string]bool
	// now are the problems that there are at present.
	now map[string]bool
	// news: there is one that was not told before.
	news bool
}

func newProblems(opts *Options) *problems { return &problems{opts: opts, told: map[string]bool{}} }

func (p *problems) begin() { p.now, p.news = map[string]bool{}, false }

func (p *problems) add(err *ObjectError) {
	text := err.Error()
	p.now[text] = true
	if p.told[text] {
		return
	}
	if len(p.told) < maxTold {
		p.told[text] = true
	}
	p.news = true
	if p.opts.Logger != nil {
		p.opts.Logger.Warn("an object of the cluster is not used as it is", slog.Any("error", err))
	}
	if p.opts.OnProblem != nil {
		p.opts.OnProblem(err)
	}
}

func (p *problems) end() {
	for text := range p.told {
		if !p.now[text] {
			delete(p.told, text)
		}
	}
}

// origin is the object that a worker was made from.
type origin struct{ kind, namespace, name string }

func (o origin) problem(field, text string) *ObjectError {
	return &ObjectError{Kind: o.kind, Namespace: o.namespace, Name: o.name, Field: field, Problem: text}
}

// found is one worker and where it comes from.
type found struct {
	fleet.Worker

	from origin
	// family and port are of endpoints of slices, which tell them apart by these.
	family string
	port   int
}

// sound leaves out workers that a Fleet would refuse the whole list for: first those
// that are wrong by themselves, then those that clash with one before them.
func (p *problems) sound(list []found) []fleet.Worker {
	alone := make([]found, 0, len(list))
	for i := range list {
		if !p.refused(list[i:i+1], list[i].Validate()) {
			alone = append(alone, list[i])
		}
	}
	for list = alone; ; {
		workers := make([]fleet.Worker, len(list))
		for i := range list {
			workers[i] = list[i].Worker
		}
		err := fleet.Validate(workers)
		if !p.refused(list, err) {
			return workers
		}
		kept := make([]found, 0, len(list))
		for i := range list {
			if !refuses(err, i) {
				kept = append(kept, list[i])
			}
		}
		list = kept
	}
}

// refused tells what an error of Validate says of the workers of list.
func (p *problems) refused(list []found, err error) bool {
	for _, part := range parts(err) {
		var w *fleet.WorkerError
		if errors.As(part, &w) {
			p.add(list[w.Index].from.problem("worker."+w.Field, w.Problem))
		}
	}
	return err != nil
}

func refuses(err error, index int) bool {
	return slices.ContainsFunc(parts(err), func(part error) bool {
		var w *fleet.WorkerError
		return errors.As(part, &w) && w.Index == index
	})
}

func parts(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return nil
}
