package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// Bounds on the document: of the nodes that are looked at, aliases followed, and of what
// is said of it.
const (
	maxVisits = 1 << 18
	maxErrors = 20
)

const emptyFile = `the file is empty; write "models: []" if there are no prices`

// Parse reads prices that an operator wrote, in the form that the package's documentation
// shows. The error joins *[SyntaxError]s, of which it has no more than twenty.
func Parse(data []byte) (*Prices, error) {
	data = yamlnode.Prepare(data)
	root, err := document(data)
	if err != nil {
		return nil, err
	}
	p := &parser{out: new(Prices)}
	p.MaxVisits = maxVisits
	p.Fail = func(n *yaml.Node, _ yamlnode.Fault, problem, advice string) {
		if advice != "" {
			problem += "; " + advice
		}
		p.failf(n, "%s", problem)
	}
	p.root(root)
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.out, nil
}

// document parses the one YAML document of data.
func document(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &SyntaxError{Problem: emptyFile}
	case err != nil:
		return nil, yamlError(err, data)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, &SyntaxError{second.Line, second.Column, "a second document begins here; put all prices into one"}
	case !errors.Is(err, io.EOF):
		return nil, yamlError(err, data)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &SyntaxError{Problem: emptyFile}
	}
	return doc.Content[0], nil
}

func yamlError(err error, data []byte) error {
	line, column, problem := yamlnode.Syntax(err, data)
	return &SyntaxError{line, column, problem}
}

type parser struct {
	yamlnode.Walker

	out  *Prices
	errs []error
}

func (p *parser) failf(n *yaml.Node, format string, args ...any) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, &SyntaxError{n.Line, n.Column, fmt.Sprintf(format, args...)})
	}
}

func (p *parser) root(n *yaml.Node) {
	n, _ = p.Resolve(n)
	switch {
	case n.Kind == yaml.SequenceNode:
		p.models(n)
	case yamlnode.IsNull(n):
		p.failf(n, emptyFile)
	default:
		found := false
		p.Mapping(n, "the file", []string{"currency", "aliases", "models"}, func(k, v *yaml.Node) {
			switch k.Value {
			case "currency":
				p.Text(v, k.Value, &p.out.Currency)
			case "aliases":
				p.aliases(v)
			default:
				found = true
				p.models(v)
			}
		})
		if !found && len(p.errs) == 0 {
			p.failf(n, `the key "models" is missing; write "models: []" if there are no prices`)
		}
	}
}

func (p *parser) aliases(n *yaml.Node) {
	p.out.Aliases = map[string]string{}
	p.Mapping(n, "aliases", nil, func(k, v *yaml.Node) {
		var of string
		if !p.Text(v, k.Value, &of) {
			return
		}
		if _, err := price.New(nil, map[string]string{k.Value: of}); err != nil {
			p.failf(v, "%s", yamlnode.Quote(k.Value)+" and "+yamlnode.Quote(of)+" must be names of two providers")
			return
		}
		p.out.Aliases[k.Value] = of
	})
}

func (p *parser) models(n *yaml.Node) {
	list, ok := p.Resolve(n)
	if !ok {
		return
	}
	if list.Kind != yaml.SequenceNode {
		p.failf(list, "models must be a list, found %s", yamlnode.KindOf(list))
		return
	}
	seen := map[[2]string]int{}
	for _, item := range list.Content {
		if p.Exhausted() || len(p.errs) >= maxErrors {
			return
		}
		e, ok := p.model(item)
		if !ok {
			continue
		}
		id := [2]string{e.Provider, e.Model}
		if line, twice := seen[id]; twice {
			p.failf(item, "there is another price for this model of this provider in line %d; remove one", line)
			continue
		}
		seen[id] = item.Line
		p.out.Entries = append(p.out.Entries, e)
	}
}
