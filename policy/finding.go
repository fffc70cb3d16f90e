package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Severity says how bad a [Finding] is.
type Severity uint8

// The severities.
const (
	// SeverityError: it can't have been meant like that. [Compile] refuses it.
	SeverityError Severity = iota
	// SeverityWarning: it may have been meant, and is probably a mistake.
	SeverityWarning
	// SeverityNote: nothing is wrong; something is worth knowing.
	SeverityNote
)

// String returns "error", "warning" or "note".
func (s Severity) String() string {
	switch s {
	case SeverityWarning:
		return "warning"
	case SeverityNote:
		return "note"
	case SeverityError:
		return "error"
	default:
		return "error"
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that is wrong with a policy, or worth knowing about it.
type Finding struct {
	// File, Line and Column say where. Line and Column count from 1, columns in
	// characters; they are 0 for what was built in Go, and File is then empty.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Policy is the policy's namespace/name, empty outside of one.
	Policy string `json:"policy,omitempty"`
	// Path is the place within the document, such as
	// spec.rules[0].route.exclude[1].drop.backend.type.
	Path     string   `json:"path,omitempty"`
	Severity Severity `json:"severity"`
	// Code is the kind of finding: a word that stays the same from release to
	// release. See the Code constants.
	Code string `json:"code"`
	// Message says what is wrong, Suggestion what to do, such as
	// `did you mean "Provider"?`; it may be empty.
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
}

// String is file:line:column: severity: path: message; suggestion [code], on one
// line.
func (f Finding) String() string {
	var b strings.Builder
	if at := (position{file: f.File, line: f.Line, column: f.Column}).String(); at != "" {
		b.WriteString(at + ": ")
	}
	b.WriteString(f.Severity.String() + ": ")
	if f.File == "" && f.Policy != "" {
		b.WriteString("policy " + f.Policy + ": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	if f.Suggestion != "" {
		b.WriteString("; " + f.Suggestion)
	}
	b.WriteString(" [" + f.Code + "]")
	return b.String()
}

// CheckError is what is wrong with policies that were refused. Seen by whoever wrote
// them: correct what it lists.
type CheckError struct {
	// Findings has at least one of SeverityError.
	Findings []Finding
}

// Error lists the findings, one a line.
func (e *CheckError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// refusal is a *CheckError with the errors among findings, nil if there are none.
func refusal(findings []Finding) error {
	var errs []Finding
	for _, f := range findings {
		if f.Severity == SeverityError {
			errs = append(errs, f)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &CheckError{Findings: errs}
}

// sortFindings puts findings in the order of reading.
func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Code, b.Code),
		)
	})
}

// maxFindings bounds what is said about one file or one set: nobody reads more, and
// a file may be hostile.
const maxFindings = 100

// enoughFindings is when looking for more ends.
const enoughFindings = 10 * maxFindings

// clip keeps the first maxFindings, errors before others.
func clip(findings []Finding) []Finding {
	if len(findings) <= maxFindings {
		return findings
	}
	more := len(findings) - maxFindings
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	last := findings[maxFindings]
	findings = append(findings[:maxFindings:maxFindings], Finding{
		File: last.File, Line: last.Line, Column: last.Column, Policy: last.Policy, Severity: last.Severity, Code: CodeTooMany,
		Message: strconv.Itoa(more) + " more are not listed",
	})
	return findings
}
