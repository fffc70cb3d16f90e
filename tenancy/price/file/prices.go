package file

import (
	"errors"
	"fmt"
	"maps"

	"github.com/kvsteer/kvsteer/tenancy/price"
)

// ErrSyntax is what every *SyntaxError wraps. Seen by whoever wrote the file.
var ErrSyntax = errors.New("price file: syntax error")

// SyntaxError says where a file is wrong, and what to do.
type SyntaxError struct {
	// Line and Column count from 1; 0 if the place is not known.
	Line, Column int
	// Problem says what is wrong and what to do about it.
	Problem string
}

// Error is line:column: problem.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return "price file: " + e.Problem
	}
	return fmt.Sprintf("price file: %d:%d: %s", e.Line, e.Column, e.Problem)
}

// Unwrap makes errors.Is(err, ErrSyntax) true.
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// Prices are what a file says, for [price.New].
type Prices struct {
	// Currency is its name, "" if the file has none.
	Currency string
	Entries  []price.Entry
	Aliases  map[string]string
}

// ErrCurrency is for whoever adds up lists of two currencies: nothing here changes one
// into another.
var ErrCurrency = errors.New("price file: the lists are in different currencies; write one of them in that of the other")

// Add appends more, which counts where both have a price for one model of a provider.
// The error wraps [ErrCurrency]; a list that names no currency goes with any. Not safe for
// concurrent use.
func (p *Prices) Add(more *Prices) error {
	if p.Currency != "" && more.Currency != "" && p.Currency != more.Currency {
		return fmt.Errorf("%w: %q and %q", ErrCurrency, p.Currency, more.Currency)
	}
	if p.Currency == "" {
		p.Currency = more.Currency
	}
	p.Entries = append(p.Entries, more.Entries...)
	if p.Aliases == nil {
		p.Aliases = make(map[string]string, len(more.Aliases))
	}
	maps.Copy(p.Aliases, more.Aliases)
	return nil
}

// Table is [price.New] of them.
func (p *Prices) Table() (*price.Table, error) { return price.New(p.Entries, p.Aliases) }
