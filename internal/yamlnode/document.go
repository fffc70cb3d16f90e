package yamlnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"go.yaml.in/yaml/v4"
)

const utf8BOM = "\xef\xbb\xbf"

// Prepare returns data as the YAML parser takes it: without a byte order mark, and,
// if it is JSON, without tabs and with no character in two halves. What is left is
// where it was.
func Prepare(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte(utf8BOM))
	if json.Valid(data) {
		// JSON may be indented with tabs, YAML may not. Within JSON strings there
		// are none, so that a blank in each one's place changes nothing.
		data = wholeCharacters(bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '}))
	}
	return data
}

// wholeCharacters writes a character that JSON has in two halves, \ud83d\ude00, as
// YAML does, \U0001f600. Blanks after the text make up for the length. A half alone
// is left, for the YAML parser to refuse.
func wholeCharacters(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\ud`)) && !bytes.Contains(data, []byte(`\uD`)) {
		return data
	}
	out := make([]byte, 0, len(data))
	within, short := false, 0
	for len(data) > 0 {
		n := 1
		switch data[0] {
		case '"':
			within = !within
		case '\\':
			if r := utf16.DecodeRune(half(data), half(data[min(len(data), halfSize):])); r != unicode.ReplacementChar {
				whole := len(out)
				out = fmt.Appendf(out, `\U%08x`, r)
				data = data[2*halfSize:]
				short += 2*halfSize - (len(out) - whole)
				continue
			}
			n = 2 // a quote among them
		}
		out, data = append(out, data[:n]...), data[n:]
		if !within {
			out = append(out, bytes.Repeat([]byte{' '}, short)...)
			short = 0
		}
	}
	return out
}

// halfSize is the length of \ud83d.
const halfSize = len(`\ud83d`)

// half is the number that data begins with, as \ud83d, or 0.
func half(data []byte) rune {
	if len(data) < halfSize || data[0] != '\\' || data[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(data[2:halfSize]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

// Syntax says what the YAML parser's error means and where it is; line and column
// count from 1 and are 0 if they are not known.
func Syntax(err error, data []byte) (line, column int, problem string) {
	text := err.Error()
	for _, prefix := range []string{"yaml: ", "go-yaml "} {
		text = strings.TrimPrefix(text, prefix)
	}
	var loadErr *yaml.LoadError
	if errors.As(err, &loadErr) {
		line, column = loadErr.Mark.Line, loadErr.Mark.Column
	}
	if line == 0 {
		// A text without the form that is looked for leaves it 0.
		if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr != nil {
			line = 0
		}
	}
	if line > 0 && tabbed(data, line) {
		text += "; the line is indented with a tab, which YAML doesn't take: use blanks"
	}
	return line, column, "not YAML: " + text
}

// tabbed reports whether a line, counted from 1, has a tab in its indentation,
// to which the marks of list items belong.
func tabbed(data []byte, line int) bool {
	for range line - 1 {
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	text, _, _ := bytes.Cut(data, []byte{'\n'})
	indentation := text[:len(text)-len(bytes.TrimLeft(text, " \t-"))]
	return bytes.IndexByte(indentation, '\t') >= 0
}
