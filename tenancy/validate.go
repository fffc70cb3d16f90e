package tenancy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxName bounds names, in bytes: they are keys of limits and of records.
	maxName = 256
	// maxNames bounds lists of them.
	maxNames = 1024
)

// FieldError says what is wrong with a field of an [Identity], and what to do. It does
// not hold the field's value, which may be anything.
type FieldError struct{ Field, Problem string }

// Error implements error.
func (e *FieldError) Error() string { return "tenancy: identity: " + e.Field + " " + e.Problem }

// Validate returns a *[FieldError] unless all names are fit to be told apart: up to 256
// bytes of UTF-8, printable, no blanks around them; in lists neither empty nor given
// twice, up to 1,024. Resolvers of this package return no others, and whoever writes
// one should ask.
func (i *Identity) Validate() error {
	for _, f := range []struct{ field, value string }{
		{"Org", i.Org}, {"Team", i.Team}, {"Tenant", i.Tenant}, {"Key", i.Key}, {"Class", i.Class}, {"By", i.By},
	} {
		if problem := wrongName(f.value); problem != "" {
			return &FieldError{Field: f.field, Problem: problem}
		}
	}
	for _, l := range []struct {
		field    string
		values   []string
		patterns bool
	}{{"Groups", i.Groups, false}, {"Models", i.Models, true}, {"Providers", i.Providers, true}} {
		if problem := wrongNames(l.values, l.patterns); problem != "" {
			return &FieldError{Field: l.field, Problem: problem}
		}
	}
	return nil
}

func wrongNames(names []string, patterns bool) string {
	if len(names) > maxNames {
		return "has more than 1024 entries; name fewer"
	}
	for at, name := range names {
		switch {
		case name == "":
			return "has an empty entry; remove it"
		case patterns && strings.Contains(name[:len(name)-1], "*"):
			return "has an asterisk within a name; it may only be the last character"
		case len(names) < 64 && slices.Contains(names[:at], name): // longer lists aren't worth the time
			return "has an entry twice; remove one"
		}
		if problem := wrongName(name); problem != "" {
			return "has an entry that " + problem
		}
	}
	return ""
}

// wrongName says what is wrong, "" if nothing is.
func wrongName(name string) string {
	switch {
	case len(name) > maxName:
		return "is longer than 256 bytes; shorten it"
	case !utf8.ValidString(name):
		return "is not valid UTF-8; correct it"
	case strings.TrimSpace(name) != name:
		return "has blanks around it; remove them"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "has characters that can't be seen; remove them"
	default:
		return ""
	}
}
