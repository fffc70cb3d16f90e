package labels

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxValue bounds the bytes of a value: names of services and subjects of
	// certificates fit.
	maxValue = 128
	// mark begins a value that is not the tenant's name as it is. Names that begin so are
	// made others too, so that nobody can be called like somebody's value.
	mark = "~"
	// shown bounds the bytes that such a value shows of the name.
	shown = 40
	// hashed is how many bytes of the name's hash it has.
	hashed = 8
)

// value is what a tenant is called in metrics: its name, if that can be shown and is
// nobody else's; else some of it and a hash of all.
func value(tenant string) string {
	if tenant == "" {
		return Anonymous
	}
	if fit(tenant) {
		return strings.Clone(tenant) // which may be a part of a whole request
	}
	sum := sha256.Sum256([]byte(tenant))
	var b strings.Builder
	b.WriteString(mark)
	for _, r := range tenant {
		if r == utf8.RuneError || !unicode.IsPrint(r) || r == '~' {
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) > shown {
			break
		}
		b.WriteRune(r)
	}
	b.WriteString(mark)
	b.WriteString(hex.EncodeToString(sum[:hashed]))
	return b.String()
}

func fit(tenant string) bool {
	switch {
	case tenant == Default || tenant == Other || tenant == Anonymous:
		return false
	case len(tenant) > maxValue || strings.HasPrefix(tenant, mark) || !utf8.ValidString(tenant):
		return false
	case strings.TrimSpace(tenant) != tenant: // nobody would see it
		return false
	default:
		return !strings.ContainsFunc(tenant, func(r rune) bool { return !unicode.IsPrint(r) })
	}
}
