package httpjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kvsteer/kvsteer/fleet"
)

// ErrSyntax: the answer is not JSON, or not a list of workers. Seen by operators
// in Fleet.Err: the URL is wrong, or what answers there is.
var ErrSyntax = errors.New("httpjson: not a list of workers")

const (
	// maxErrors bounds the length of one joined error.
	maxErrors = 20
	// maxEntries bounds the memory of a short answer's long list.
	maxEntries = 100_000
)

// Decode makes workers of the default form, {"workers": [...]} or the list alone,
// with the fields of fleet.Worker as its JSON tags name them. Keys that it does
// not have, null in place of the list, more than 100,000 entries and anything
// after it are errors. One wrong
// entry refuses all: the errors of entries are *fleet.WorkerErrors, which have
// their index. Decode checks the form; what values mean is checked by
// fleet.Validate.
func Decode(body []byte) ([]fleet.Worker, error) {
	entries, err := list(body)
	if err != nil {
		return nil, err
	}
	workers := []fleet.Worker{}
	var errs []error
	for i, entry := range entries {
		var w fleet.Worker
		if err := strict(entry, &w); err != nil {
			if errs = append(errs, entryError(i, entry, err)); len(errs) == maxErrors {
				break
			}
		}
		workers = append(workers, w)
	}
	if len(errs) > 0 {
		return nil, placed(errors.Join(errs...))
	}
	return workers, nil
}

// entries are those of a list, up to maxEntries.
type entries []json.RawMessage

// UnmarshalJSON reads one entry after the other.
func (e *entries) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]json.RawMessage)(e)) // which says what it is instead
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		if len(*e) == maxEntries {
			return fmt.Errorf("it has more than %d entries", maxEntries)
		}
		var entry json.RawMessage
		if err := dec.Decode(&entry); err != nil {
			return err
		}
		*e = append(*e, entry)
	}
	return nil
}

// list finds the list of entries.
func list(body []byte) ([]json.RawMessage, error) {
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		// Its text quotes one character at the most.
		return nil, fmt.Errorf("%w: not JSON: %w; is this the right URL, and does it need credentials?", ErrSyntax, err)
	}
	if bytes.HasPrefix(bytes.TrimLeft(whole, " \t\r\n"), []byte("[")) {
		var found entries
		if err := strict(whole, &found); err != nil {
			return nil, formError(err)
		}
		return found, nil
	}
	var doc struct {
		Workers *entries `json:"workers"`
	}
	if err := strict(whole, &doc); err != nil {
		return nil, formError(err)
	}
	if doc.Workers == nil {
		return nil, fmt.Errorf(`%w: the key "workers" is missing or null; write {"workers": []} if there are none`, ErrSyntax)
	}
	return *doc.Workers, nil
}

func formError(err error) error {
	_, problem := explain(err)
	return fmt.Errorf(`%w: %s; it must be {"workers": [...]} or a list, unless Discoverer.Decode reads another form`, ErrSyntax, problem)
}

func strict(data []byte, target any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(target)
}

func entryError(index int, entry []byte, err error) error {
	var named struct {
		Name string `json:"name"`
	}
	// Only to name it: what is wrong is known.
	_ = json.Unmarshal(entry, &named)
	field, problem := explain(err)
	return &fleet.WorkerError{Index: index, Worker: named.Name, Field: field, Problem: problem}
}

// explain says in the reader's words what the JSON decoder found.
func explain(err error) (field, problem string) {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return te.Field, fmt.Sprintf("expected %s, found %s", kind(te.Type.Kind().String()), te.Value)
	}
	return "", err.Error()
}

// kind is JSON's name of a kind of Go's.
func kind(goKind string) string {
	switch goKind {
	case "string":
		return "a text"
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	case "slice":
		return "a list"
	default:
		return "an object"
	}
}

// placed puts the index of the entry before what is said of a worker.
func placed(err error) error {
	if err == nil {
		return nil
	}
	parts := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts = joined.Unwrap()
	}
	out := make([]error, len(parts))
	for i, part := range parts {
		out[i] = part
		var we *fleet.WorkerError
		if errors.As(part, &we) {
			out[i] = fmt.Errorf("workers[%d]: %w", we.Index, part)
		}
	}
	return errors.Join(out...)
}
