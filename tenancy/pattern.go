package tenancy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// pattern matches names segment by segment; a segment "{word}" stands for any.
type pattern struct {
	separator string
	segments  []string
	words     []string
}

// parsePattern takes all of text as one segment if there is no separator.
func parsePattern(text, separator string) (pattern, error) {
	p := pattern{separator: separator, segments: []string{text}}
	if separator != "" {
		p.segments = strings.Split(text, separator)
	}
	for _, s := range p.segments {
		word, ok := placeholder(s)
		switch {
		case ok && slices.Contains(p.words, word):
			return p, fmt.Errorf("has {%s} twice; give each its own name", word)
		case ok:
			p.words = append(p.words, word)
		case s == "":
			return p, errors.New("has an empty segment; remove it")
		case strings.ContainsAny(s, "{}*"):
			return p, errors.New("has braces or an asterisk within a segment; a segment is a text, or {name} for any")
		}
	}
	return p, nil
}

// placeholder returns the word of "{word}".
func placeholder(s string) (word string, ok bool) {
	if len(s) < 3 || s[0] != '{' || s[len(s)-1] != '}' {
		return "", false
	}
	word = s[1 : len(s)-1]
	return word, !strings.ContainsFunc(word, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// match returns what stood for the words, in their order.
func (p *pattern) match(name string) (values []string, ok bool) {
	segments := []string{name}
	if p.separator != "" {
		segments = strings.Split(name, p.separator)
	}
	if len(segments) != len(p.segments) {
		return nil, false
	}
	for i, s := range p.segments {
		_, open := placeholder(s)
		switch {
		case segments[i] == "" || open && strings.Contains(segments[i], "*"): // a certificate for many names is none of them
			return nil, false
		case open:
			values = append(values, segments[i])
		case s != segments[i]:
			return nil, false
		}
	}
	return values, true
}

// check says whether texts hold other words than the pattern.
func (p *pattern) check(texts ...string) error {
	for _, text := range texts {
		for {
			_, after, open := strings.Cut(text, "{")
			if !open {
				break
			}
			word, rest, closed := strings.Cut(after, "}")
			if !closed || !slices.Contains(p.words, word) {
				return fmt.Errorf("names {%s}, which the pattern doesn't have; correct one of them", word)
			}
			text = rest
		}
	}
	return nil
}

// expand puts values in the place of words. A value is never looked through again.
func (p *pattern) expand(text string, values []string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	pairs := make([]string, 0, 2*len(values))
	for i, word := range p.words {
		pairs = append(pairs, "{"+word+"}", values[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
