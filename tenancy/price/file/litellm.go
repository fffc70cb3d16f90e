package file

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// Report says what became of the models of a public list.
type Report struct {
	// Taken and Refused are models; both together are all that the list has.
	Taken, Refused int
	// Partial are those Taken that also charge for something else than tokens of text,
	// sound, pictures and searches for some: a request that has such costs more than is said.
	Partial int
	// Rounded are prices that are no whole millionths per million tokens: they are the
	// nearest.
	Rounded int
	// Problems are the first hundred of those Refused.
	Problems []Problem
}

// Problem is why a model was refused.
type Problem struct{ Model, Reason string }

const maxProblems = 100

// String is for a log, in a line.
func (r *Report) String() string {
	text := fmt.Sprintf("%d models taken, %d refused; %d also charge for more than tokens; %d prices were rounded",
		r.Taken, r.Refused, r.Partial, r.Rounded)
	if len(r.Problems) > 0 {
		p := r.Problems[0]
		text += "; the first refused is " + yamlnode.Quote(p.Model) + ": " + p.Reason
	}
	return text
}

func (r *Report) refuse(model, reason string) {
	r.Refused++
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{model, reason})
	}
}

// LiteLLM reads the public list model_prices_and_context_window.json. Its prices are in
// dollars per token. A model that has no price for tokens (of pictures, of sound by the
// second) is refused, and so is one whose answers have none: they would be free. The
// error is a *[SyntaxError] if data isn't such a list at all; one model never spoils
// the others.
//
// The names of providers are those of the list, but parts of one are made one:
// vertex_ai for vertex_ai-anthropic_models, bedrock for bedrock_converse. Prices by hour
// of the day, for batches and for classes of service (_batches, _flex, _priority) are
// not used. Cache writes cost what those that are kept for minutes do; hourCache takes
// the price of those that are kept for an hour, where there is one.
func LiteLLM(data []byte, hourCache bool) (*Prices, *Report, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return nil, nil, jsonError(err, data)
	}
	l := list{
		prices: &Prices{Currency: "USD"}, report: new(Report), hourCache: hourCache,
		raw: map[string]json.RawMessage{}, seen: map[[2]string]place{},
	}
	if err := l.read(json.NewDecoder(bytes.NewReader(data))); err != nil {
		return nil, nil, &SyntaxError{Line: 1, Column: 1, Problem: notLiteLLM + err.Error()}
	}
	slices.SortStableFunc(l.prices.Entries, func(a, b price.Entry) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return l.prices, l.report, nil
}

var errNotAList = errors.New("it is not a JSON object of models")

type list struct {
	prices    *Prices
	report    *Report
	hourCache bool
	raw       map[string]json.RawMessage
	// seen says where the entry of a provider's model is.
	seen map[[2]string]place
}

// place is where an entry is, and whether its name stood in the list without the
// provider before it. Such a one goes before one with.
type place struct {
	at   int
	bare bool
}

// specimen explains the list's fields, and is no model.
const specimen = "sample_spec"

// read goes through what is JSON. Of two models of one name the last counts, as with
// every reader of JSON.
func (l *list) read(dec *json.Decoder) error {
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return cmp.Or(err, errNotAList)
	}
	var names []string
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		name, _ := token.(string)
		if _, twice := l.raw[name]; !twice && name != specimen {
			names = append(names, name)
		}
		l.raw[name] = raw
	}
	for _, name := range names {
		l.model(name)
	}
	return nil
}

// fields returns what the list says of a model, nil if that is nothing.
func (l *list) fields(name string) map[string]any {
	var fields map[string]any
	dec := json.NewDecoder(bytes.NewReader(l.raw[name]))
	dec.UseNumber()
	if err := dec.Decode(&fields); err != nil {
		return nil
	}
	return fields
}

func (l *list) model(name string) {
	fields := l.fields(name)
	if fields == nil {
		l.report.refuse(name, "it is not an object")
		return
	}
	if of, ok := fields["alias_of"].(string); ok {
		if fields = l.fields(of); fields == nil || fields["alias_of"] != nil {
			l.report.refuse(name, "it is an alias of a model that the list does not have")
			return
		}
	}
	m := model{fields: fields, hourCache: l.hourCache}
	e, err := m.entry(name)
	if err != nil {
		l.report.refuse(name, err.Error())
		return
	}
	l.report.Rounded += m.rounded
	if m.partial {
		l.report.Partial++
	}
	l.report.Taken++
	l.take(e, e.Model == name)
}

func (l *list) take(e *price.Entry, bare bool) {
	id := [2]string{e.Provider, e.Model}
	old, found := l.seen[id]
	switch {
	case !found:
		l.seen[id] = place{len(l.prices.Entries), bare}
		l.prices.Entries = append(l.prices.Entries, *e)
	case bare || !old.bare:
		l.seen[id] = place{old.at, bare}
		l.prices.Entries[old.at] = *e
	default:
	}
}

const notLiteLLM = "not LiteLLM's list of prices: "

// jsonError says where data is not JSON.
func jsonError(err error, data []byte) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return &SyntaxError{Problem: notLiteLLM + err.Error()}
	}
	before := data[:min(max(syntax.Offset-1, 0), int64(len(data)))]
	problem := notLiteLLM + err.Error()
	if syntax.Offset >= int64(len(data)) {
		problem += "; is the file whole?"
	}
	return &SyntaxError{1 + bytes.Count(before, []byte{'\n'}), len(before) - bytes.LastIndexByte(before, '\n'), problem}
}
