package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// Bounds on the document. Aliases are followed, so that a small file can describe a
// huge document: what counts is the number of nodes visited.
const (
	maxVisits = 1 << 20
	maxErrors = 20
)

// Limits are what a file says.
type Limits struct {
	Rules   []quota.Rule
	Weights quota.Weights
}

// Error says where a file is wrong, and what to do.
type Error struct {
	// File is as it was given; Line and Column count from 1, and are 0 if the place is
	// not known.
	File         string
	Line, Column int
	Problem      string
}

// Error is file:line:column: problem.
func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return fmt.Sprintf("quota/file: %s: %s", e.File, e.Problem)
	case e.Column == 0:
		return fmt.Sprintf("quota/file: %s:%d: %s", e.File, e.Line, e.Problem)
	default:
		return fmt.Sprintf("quota/file: %s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
	}
}

// Parse reads limits and checks them, as [quota.New] does. name is what errors call the
// file; they are, or join, *[Error].
func Parse(name string, data []byte) (Limits, error) {
	p := &parser{file: name}
	root, err := p.document(yamlnode.Prepare(data))
	if err != nil {
		return Limits{}, err
	}
	p.MaxVisits = maxVisits
	p.Fail = func(n *yaml.Node, _ yamlnode.Fault, problem, advice string) {
		if advice != "" {
			problem += "; " + advice
		}
		p.failf(n, "%s", problem)
	}
	var limits Limits
	var places []*yaml.Node
	there := false
	p.Mapping(root, "the file", []string{"rules", "weights"}, func(key, value *yaml.Node) {
		if key.Value == "weights" {
			limits.Weights = p.weights(value)
			return
		}
		there = true
		for _, item := range p.list(value, "rules") {
			limits.Rules, places = append(limits.Rules, p.rule(item)), append(places, item)
			if p.Exhausted() || len(p.errs) >= maxErrors {
				break
			}
		}
	})
	if !there && len(p.errs) == 0 {
		p.failf(root, "%s", noRules)
	}
	if len(p.errs) > 0 {
		return Limits{}, errors.Join(p.errs...)
	}
	if _, err := quota.NewPlan(quota.Options{Rules: limits.Rules, Weights: limits.Weights}); err != nil {
		return Limits{}, p.locate(err, places)
	}
	return limits, nil
}

const noRules = `there are no rules; write "rules: []" if that is meant`

type parser struct {
	yamlnode.Walker

	file string
	errs []error
}

// document parses the one YAML document of data.
func (p *parser) document(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, &Error{File: p.file, Problem: noRules}
	case err == nil:
		if err = dec.Decode(&second); err == nil {
			const problem = "a second document begins here; put all rules into one"
			return nil, &Error{File: p.file, Line: second.Line, Column: second.Column, Problem: problem}
		}
	default:
	}
	switch {
	case !errors.Is(err, io.EOF):
		line, column, problem := yamlnode.Syntax(err, data)
		return nil, &Error{File: p.file, Line: line, Column: column, Problem: problem}
	case doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || yamlnode.IsNull(doc.Content[0]):
		return nil, &Error{File: p.file, Problem: noRules}
	}
	return doc.Content[0], nil
}

func (p *parser) failf(n *yaml.Node, format string, args ...any) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, &Error{File: p.file, Line: n.Line, Column: n.Column, Problem: fmt.Sprintf(format, args...)})
	}
}

// locate says where the rules stand that quota finds wrong.
func (p *parser) locate(err error, places []*yaml.Node) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	out := make([]error, len(list))
	for i, e := range list {
		out[i] = &Error{File: p.file, Problem: e.Error()}
		var wrong *quota.RuleError
		if errors.As(e, &wrong) && wrong.Index < len(places) {
			n := places[wrong.Index]
			problem := fmt.Sprintf("the rule %s: %v", yamlnode.Quote(wrong.Name), wrong.Err)
			out[i] = &Error{File: p.file, Line: n.Line, Column: n.Column, Problem: problem}
		}
	}
	return errors.Join(out...)
}

func (p *parser) list(n *yaml.Node, what string) []*yaml.Node {
	n, ok := p.Resolve(n)
	if ok && n.Kind != yaml.SequenceNode {
		p.failf(n, "%s must be a list, found %s", what, yamlnode.KindOf(n))
	}
	if !ok || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}
