package doctor

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Layout of the text, in columns.
const (
	width       = 100
	statusWidth = 7
	checkWidth  = 9
	indent      = 2 + statusWidth + 1 + checkWidth + 1
)

// WriteText writes the report for people. color is for terminals.
func (r *Report) WriteText(w io.Writer, color bool) error {
	t := &text{w: bufio.NewWriter(w), color: color}
	if len(r.Files) > 0 {
		t.line(t.bold("local files"))
		t.findings(r.Files)
	}
	for i := range r.Workers {
		worker := &r.Workers[i]
		engine := ""
		if worker.Engine != "" {
			engine = strings.TrimSpace(title(worker.Engine) + " " + worker.Version)
		}
		t.line(t.bold(worker.Name) + "  " + strings.TrimSpace(worker.URL+"  "+printable(engine)))
		t.findings(worker.Checks)
	}
	t.line(t.verdict(r))
	return t.w.Flush()
}

// text is a report being written. Errors are those of its Writer, which keeps the
// first.
type text struct {
	w     *bufio.Writer
	color bool
}

func (t *text) line(s string) { fmt.Fprintln(t.w, s) }

// printable keeps what engines say of themselves from controlling a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r): // can't be seen, and may turn round what is around it
			return -1
		default:
			return r
		}
	}, s)
}

func (t *text) findings(found findings) {
	for i := range found {
		f := &found[i]
		what := f.Summary
		if f.Subject != "" {
			what = f.Subject + ": " + what
		}
		for n, line := range wrap(what, width-indent) {
			if n == 0 {
				t.line("  " + t.status(f.Status) + " " + pad(f.Check, checkWidth) + " " + line)
			} else {
				t.line(strings.Repeat(" ", indent) + line)
			}
		}
		if f.Advice == "" {
			continue
		}
		for n, line := range wrap(f.Advice, width-indent-len("> ")) {
			mark := "  "
			if n == 0 {
				mark = "> "
			}
			t.line(strings.Repeat(" ", indent) + mark + line)
		}
	}
	t.line("")
}

func (t *text) verdict(r *Report) string {
	c := r.Counts
	parts := []string{plural(c.Fault, "fault"), plural(c.Warning, "warning"), fmt.Sprintf("%d ok", c.OK)}
	if c.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d not looked at", c.Skipped))
	}
	verdict := plural(len(r.Workers), "worker") + ": " + strings.Join(parts, ", ")
	if c.Fault+c.Warning > 0 {
		verdict += ". docs/doctor.md explains each check."
	}
	return verdict
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Escape sequences of terminals.
const (
	escReset  = "\x1b[0m"
	escBold   = "\x1b[1m"
	escGreen  = "\x1b[32m"
	escYellow = "\x1b[33m"
	escRed    = "\x1b[1;31m"
	escDim    = "\x1b[2m"
)

func (t *text) paint(esc, s string) string {
	if !t.color {
		return s
	}
	return esc + s + escReset
}

func (t *text) bold(s string) string { return t.paint(escBold, s) }

// status is the word in its column, in its colour.
func (t *text) status(s Status) string {
	switch s {
	case OK:
		return t.paint(escGreen, pad("ok", statusWidth))
	case Skipped:
		return t.paint(escDim, pad("-", statusWidth))
	case Warning:
		return t.paint(escYellow, pad("warning", statusWidth))
	case Fault:
		return t.paint(escRed, pad("FAULT", statusWidth))
	default:
		return pad(string(s), statusWidth)
	}
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) }

// wrap breaks a text into lines at spaces; words that are longer stay whole, since
// they are to be copied.
func wrap(s string, n int) []string {
	var lines []string
	line, length := "", 0
	for word := range strings.FieldsSeq(printable(s)) {
		size := utf8.RuneCountInString(word)
		if length > 0 && length+1+size > n {
			lines, line, length = append(lines, line), "", 0
		}
		if length > 0 {
			line, length = line+" ", length+1
		}
		line, length = line+word, length+size
	}
	return append(lines, line)
}
