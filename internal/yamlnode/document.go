package yamlnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

const utf8BOM = "\xef\xbb\xbf"

// Prepare returns data as the YAML parser takes it: without a byte order mark, and,
// if it is JSON, without tabs.
func Prepare(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte(utf8BOM))
	if json.Valid(data) {
		// JSON may be indented with tabs, YAML may not. Within JSON strings there
		// are none, so that a blank in each one's place changes nothing.
		data = bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '})
	}
	return data
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
