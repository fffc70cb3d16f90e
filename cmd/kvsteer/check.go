package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

const checkUsage = `usage: kvsteer check [flags] FILE|DIR...

Checks policies: every document of kind InferencePolicy in the files, and in all
*.yaml, *.yml and *.json files below the directories. "-" reads standard input.
Other documents may stand beside them: InferencePool, InferenceWorkerSet,
InferenceProvider, GatewayBackend and HTTPRoute define names that policies refer to.

A finding is file:line:column: severity: place: message [code]. Exit code: 0 if
there are no errors, 1 if there are errors (with -strict: or warnings), 2 if a file
can't be read: it isn't there, is no YAML, or is too large.

Tags are checked with -tags only: which there are depends on your classifiers. The
word builtin stands for those of the built-in ones: ` + builtinTags + `
`

const builtinTags = classify.TagPII + ",\n" + classify.TagSecrets + ", " + classify.TagLowComplexity + ", " + classify.TagHighComplexity

// checkRun is one run of `kvsteer check`.
type checkRun struct {
	strict, json, notes bool
	opts                policy.CheckOptions
	stdin               io.Reader

	files    []*policy.File
	findings []policy.Finding
	// unreadable: a file could not be read.
	unreadable bool
}

// checkReport is what -json prints.
type checkReport struct {
	Files    int              `json:"files"`
	Policies int              `json:"policies"`
	Errors   int              `json:"errors"`
	Warnings int              `json:"warnings"`
	Notes    int              `json:"notes"`
	Findings []policy.Finding `json:"findings"`
}

func runCheck(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	run := checkRun{stdin: os.Stdin}
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, checkUsage, "\nflags:\n")
		flags.PrintDefaults()
	}
	flags.BoolVar(&run.strict, "strict", false, "make warnings fail, too")
	flags.BoolVar(&run.json, "json", false, "print one JSON object instead of lines")
	flags.BoolVar(&run.notes, "notes", false, "print notes as well: what is worth knowing, such as documents that are not read")
	flags.BoolVar(&run.opts.Together, "together", false, "the policies are in force together: "+
		"also report rules that are never reached because of other policies")
	flags.Func("tags", "the tags that classifiers produce, comma-separated; builtin for those of the built-in ones; "+
		"an empty list for none", run.addTags)
	flags.Func("models", "models that exist beside those in the files, comma-separated", func(s string) error {
		for _, name := range splitList(s) {
			run.opts.Models = append(run.opts.Models, policy.ModelLabels{Name: name})
		}
		return nil
	})
	schema := flags.Bool("schema", false, "print the JSON Schema of policies, for editors, and do nothing else")
	if code, ok := parse(flags, args, stderr); !ok {
		return code
	}
	if *schema {
		return printSchema(stdout, stderr)
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return exitUsage
	}
	for _, arg := range flags.Args() {
		if len(arg) > 1 && arg[0] == '-' { // a file of that name can be written ./-name
			fmt.Fprintf(stderr, "kvsteer check: %s comes after a file; flags go before files\n", arg)
			return exitUsage
		}
	}
	if err := run.read(ctx, flags.Args()); err != nil {
		fmt.Fprintf(stderr, "kvsteer check: %v\n", err)
		return exitUnreadable
	}
	run.check()
	if err := run.print(stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "kvsteer check: %v\n", err)
		return exitFailed
	}
	return run.code()
}

func printSchema(stdout, stderr io.Writer) int {
	schema, err := policy.Schema()
	if err == nil {
		_, err = stdout.Write(schema)
	}
	if err != nil {
		fmt.Fprintf(stderr, "kvsteer check: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func (r *checkRun) addTags(s string) error {
	if r.opts.Tags == nil {
		r.opts.Tags = []string{} // none is known to be produced
	}
	for _, tag := range splitList(s) {
		if tag == "builtin" {
			r.opts.Tags = append(r.opts.Tags, classify.TagPII, classify.TagSecrets, classify.TagLowComplexity, classify.TagHighComplexity)
			continue
		}
		r.opts.Tags = append(r.opts.Tags, tag)
	}
	return nil
}

// splitList is a comma-separated list without what is empty.
func splitList(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// check adds what is wrong with what was read.
func (r *checkRun) check() {
	r.findings = append(r.findings, policy.Check(r.files, r.opts)...)
	if r.policies() == 0 && !slices.ContainsFunc(r.findings, isError) {
		r.findings = append(r.findings, policy.Finding{
			Severity: policy.SeverityWarning, Code: policy.CodeNoPolicy, Message: "there is no policy in any file",
			Suggestion: "a policy is a document with kind: " + policy.Kind,
		})
	}
	slices.SortStableFunc(r.findings, func(a, b policy.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

func (r *checkRun) policies() int {
	n := 0
	for _, f := range r.files {
		n += len(f.Specs)
	}
	return n
}

func isError(f policy.Finding) bool { return f.Severity == policy.SeverityError }

func (r *checkRun) report() checkReport {
	rep := checkReport{Files: len(r.files), Policies: r.policies(), Findings: []policy.Finding{}}
	for _, f := range r.findings {
		switch f.Severity {
		case policy.SeverityError:
			rep.Errors++
		case policy.SeverityWarning:
			rep.Warnings++
		case policy.SeverityNote:
			rep.Notes++
			if !r.notes {
				continue
			}
		default:
		}
		rep.Findings = append(rep.Findings, f)
	}
	return rep
}

func (r *checkRun) code() int {
	rep := r.report()
	switch {
	case r.unreadable:
		return exitUnreadable
	case rep.Errors > 0, r.strict && rep.Warnings > 0:
		return exitFailed
	default:
		return exitOK
	}
}

func (r *checkRun) print(stdout, stderr io.Writer) error {
	rep := r.report()
	if r.json {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	var out strings.Builder
	for _, f := range rep.Findings {
		out.WriteString(f.String() + "\n")
	}
	fmt.Fprintf(&out, "%s in %s: %s, %s", count(rep.Policies, "policy", "policies"), count(rep.Files, "file", "files"),
		count(rep.Errors, "error", "errors"), count(rep.Warnings, "warning", "warnings"))
	if rep.Notes > 0 && !r.notes {
		fmt.Fprintf(&out, " (%s: -notes)", count(rep.Notes, "note", "notes"))
	}
	out.WriteString("\n")
	if _, err := io.WriteString(stdout, out.String()); err != nil {
		return err
	}
	if r.opts.Tags == nil && r.tagged() {
		fmt.Fprintln(stderr, "kvsteer check: whether something produces the tags was not checked; list what classifiers produce with -tags")
	}
	return nil
}

// tagged reports whether a policy asks for a tag.
func (r *checkRun) tagged() bool {
	for _, f := range r.files {
		for _, s := range f.Specs {
			for i := range s.Rules {
				rule := &s.Rules[i]
				if slices.ContainsFunc(rule.Matches, func(m policy.Match) bool { return len(m.Tag) > 0 }) ||
					slices.ContainsFunc(rule.Route.Exclude, func(x policy.Exclusion) bool { return len(x.If.Tag) > 0 }) {
					return true
				}
			}
		}
	}
	return false
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
