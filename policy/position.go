package policy

import "fmt"

// position is where something stands in a file; the zero value is what was built in
// Go.
type position struct {
	file         string
	line, column int
}

func (p position) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column)
}
