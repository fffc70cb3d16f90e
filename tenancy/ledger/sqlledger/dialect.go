package sqlledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Dialect is a kind of database.
type Dialect uint8

// The dialects.
const (
	SQLite Dialect = iota + 1
	PostgreSQL
)

// String is its name.
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case PostgreSQL:
		return "PostgreSQL"
	default:
		return fmt.Sprintf("Dialect(%d)", uint8(d))
	}
}

// place is the nth parameter, from 1.
func (d Dialect) place(n int) string {
	if d == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// places is n of them in parentheses, the first one number from.
func (d Dialect) places(from, n int) string {
	var b strings.Builder
	for i := range n {
		sep := ", "
		if i == 0 {
			sep = "("
		}
		b.WriteString(sep + d.place(from+i))
	}
	return b.String() + ")"
}

// time is how a time is stored.
func (d Dialect) time(t time.Time) any {
	if d == PostgreSQL {
		return t.UTC()
	}
	return t.UnixMicro()
}
