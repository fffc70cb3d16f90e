package policy

import (
	"strconv"
	"strings"
)

// position is where something stands in a file; without a line it is what was built
// in Go.
type position struct {
	file         string
	line, column int
}

func (p position) String() string {
	if p.line == 0 {
		return p.file
	}
	return p.file + ":" + strconv.Itoa(p.line) + ":" + strconv.Itoa(p.column)
}

// source is the document that a Spec was read from. Paths in it are those of
// findings, such as "spec.rules[0].route.exclude[1].drop"; the document itself is "".
type source struct {
	file   string
	places map[string]position
	// flawed has what could not be read, and all that it is part of: what is missing
	// there may have been meant.
	flawed map[string]bool
}

func newSource(file string) *source {
	return &source{file: file, places: make(map[string]position), flawed: make(map[string]bool)}
}

// put remembers where a path stands. What an alias brought in stands before what it is
// part of; it is where the alias is, as far as anybody is concerned.
func (s *source) put(path string, line, column int) {
	at := position{file: s.file, line: line, column: column}
	if path != "" {
		if whole := s.position(parentPath(path)); at.line < whole.line || at.line == whole.line && at.column < whole.column {
			at = whole
		}
	}
	s.places[path] = at
}

// flaw marks a path and all that it is part of.
func (s *source) flaw(path string) {
	for {
		s.flawed[path] = true
		if path == "" {
			return
		}
		path = parentPath(path)
	}
}

// position says where a path stands, or the nearest that it is part of.
func (s *source) position(path string) position {
	for {
		if at, ok := s.places[path]; ok {
			return at
		}
		if path == "" {
			return position{file: s.file}
		}
		path = parentPath(path)
	}
}

// parentPath leaves out the last key or index.
func parentPath(path string) string {
	cut := strings.LastIndexAny(path, ".[")
	if cut < 0 {
		return ""
	}
	return path[:cut]
}

// position says where a path of the policy stands in its file.
func (s *Spec) position(path string) position {
	if s.src == nil {
		return position{}
	}
	return s.src.position(path)
}

// written reports whether a policy that was read from a file has the path; of what was
// built in Go nobody can tell, and it counts as written.
func (s *Spec) written(path string) bool {
	if s.src == nil {
		return true
	}
	_, ok := s.src.places[path]
	return ok
}

// sound reports whether everything at the path and below could be read.
func (s *Spec) sound(path string) bool {
	return s.src == nil || !s.src.flawed[path]
}

// item is the path of a list's item.
func item(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}
