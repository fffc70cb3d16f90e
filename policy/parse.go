package policy

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// Bounds of what is read. A policy of a thousand rules is far below them.
const (
	// MaxFileBytes is how long a file may be; longer ones are refused unread.
	MaxFileBytes = 1 << 20
	// maxDepth is how deep values may be nested; policies need 12.
	maxDepth = 64
	// maxVisits is how many nodes may be looked at, aliases followed.
	maxVisits = 1 << 18
	maxDocs   = 1000
)

// File is what was read from one file.
type File struct {
	// Name is the file's, as it was given to [Parse].
	Name string
	// Specs are its policies, in the order of the file.
	Specs []*Spec
	// Manifests are its other documents that define names which policies may use.
	Manifests []Manifest
}

// Parse reads YAML or JSON documents: policies, and manifests that define what
// policies refer to. file is the name that findings show.
//
// It reports what can't be read, with its place; what could be read is in the File
// all the same, which is never nil. [Check] finds what is wrong beyond that, [Load]
// does everything at once. Files beyond [MaxFileBytes], values nested too deep and
// aliases that multiply are refused.
func Parse(file string, data []byte) (*File, []Finding) {
	out := &File{Name: file}
	p := &parser{out: out, src: newSource(file)}
	p.MaxVisits = maxVisits
	p.Fail = func(n *yaml.Node, fault yamlnode.Fault, problem, advice string) {
		p.fail(n, faultCode(fault), problem, advice)
	}
	if len(data) > MaxFileBytes {
		p.add(position{file: file}, SeverityError, CodeFileTooLarge,
			"the file is longer than "+strconv.Itoa(MaxFileBytes)+" bytes", "split it")
		return out, p.findings
	}
	p.documents(yamlnode.Prepare(data))
	sortFindings(p.findings)
	return out, clip(p.findings)
}

// Load makes a Set of the policies of one file. The error is a *[CheckError] with
// everything that is wrong; a file without a policy is one, because it is what a
// half-written file looks like.
func Load(file string, data []byte, opts Options) (*Set, error) {
	f, findings := Parse(file, data)
	if err := refusal(findings); err != nil {
		// What else is wrong is worth knowing at the same time.
		return nil, refusal(append(findings, Check([]*File{f}, CheckOptions{Models: opts.Models})...))
	}
	if len(f.Specs) == 0 {
		return nil, &CheckError{Findings: []Finding{{
			File: file, Severity: SeverityError, Code: CodeNoPolicy, Message: "there is no policy in the file",
			Suggestion: "add a document with kind: " + Kind + " and apiVersion: " + APIVersion,
		}}}
	}
	return Compile(opts, f.Specs...)
}

// parser reads one file.
type parser struct {
	yamlnode.Walker

	out *File
	src *source
	// at is the path of what is being read, policy the name of the policy.
	at, policy string
	// published: the document may only have what published policies have.
	published bool
	findings  []Finding
}

func faultCode(fault yamlnode.Fault) string {
	switch fault {
	case yamlnode.UnknownKey:
		return CodeUnknownKey
	case yamlnode.DuplicateKey:
		return CodeDuplicateKey
	case yamlnode.TooMuch:
		return CodeTooComplex
	case yamlnode.WrongType:
		return CodeWrongType
	default:
		return CodeWrongType
	}
}

// fail reports an error at a node, for the path that is being read.
func (p *parser) fail(n *yaml.Node, code, message, suggestion string) {
	p.src.flaw(p.at)
	p.add(position{line: n.Line, column: n.Column}, SeverityError, code, message, suggestion)
}

func (p *parser) note(n *yaml.Node, severity Severity, code, message, suggestion string) {
	p.add(position{line: n.Line, column: n.Column}, severity, code, message, suggestion)
}

func (p *parser) add(at position, severity Severity, code, message, suggestion string) {
	p.findings = append(p.findings, Finding{
		File: p.out.Name, Line: at.line, Column: at.column, Policy: p.policy, Path: p.at,
		Severity: severity, Code: code, Message: message, Suggestion: suggestion,
	})
}

// stopped reports whether reading on makes no sense: there is too much of it.
func (p *parser) stopped() bool {
	return p.Exhausted() || len(p.findings) > enoughFindings
}

func (p *parser) documents(data []byte) {
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(loaderlimits.New(
		loaderlimits.DepthValue(maxDepth), loaderlimits.AliasNone()))) // nothing is expanded; visits are counted
	if err != nil {
		p.syntax(err, data)
		return
	}
	empty := true
	for n := 0; !p.stopped(); n++ {
		var doc yaml.Node
		err := loader.Load(&doc)
		switch {
		case errors.Is(err, io.EOF):
			if empty {
				p.add(position{line: 1, column: 1}, SeverityWarning, CodeEmptyFile, "the file is empty", "")
			}
			return
		case err != nil:
			p.syntax(err, data)
			return
		case n >= maxDocs:
			p.fail(&doc, CodeTooComplex, "the file has more than "+strconv.Itoa(maxDocs)+" documents", "split it")
			return
		}
		root := &doc
		if doc.Kind == yaml.DocumentNode {
			if len(doc.Content) == 0 {
				continue
			}
			root = doc.Content[0]
		}
		if yamlnode.IsNull(root) {
			continue
		}
		empty = false
		p.document(root)
	}
}

func (p *parser) syntax(err error, data []byte) {
	line, column, problem := yamlnode.Syntax(err, data)
	p.at, p.policy = "", ""
	p.add(position{line: line, column: column}, SeverityError, CodeSyntax, problem, "")
}
