package classify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/policy"
)

// PresidioOptions configures a [Presidio].
type PresidioOptions struct {
	Endpoint

	// Language is that of the texts; empty means "en".
	Language string
	// Rules are required. Labels are entity types, such as "PERSON"; without any the
	// rule goes by every entity that the analyzer knows.
	Rules []Rule
}

// Presidio asks a Presidio analyzer, POST /analyze, one message at a time. It finds
// what structure can't, such as names and places. It is safe for concurrent use.
//
// An analyzer passes over entity types that it has no recognizer for. So it is asked
// once for those that it has (GET supportedentities, beside the Endpoint's URL), and a
// tag whose rule names another one is unknown where nothing is found: nobody looked.
type Presidio struct {
	service   *service
	language  string
	entities  []string // nil for all
	supported string   // where to ask

	mu    sync.Mutex
	known *recognized // once it was asked
}

// recognized is what an analyzer has of the types that rules name.
type recognized struct {
	entities []string // to ask for, nil for all
	unsure   []string // tags with a type that it does not have
	none     bool     // it has none of them
}

// NewPresidio returns a Presidio. The error says what is missing.
func NewPresidio(opts PresidioOptions) (*Presidio, error) {
	s, err := newService(opts.Endpoint, opts.Rules)
	if err != nil {
		return nil, err
	}
	p := &Presidio{service: s, language: opts.Language}
	if p.language == "" {
		p.language = "en"
	}
	p.supported = beside(s.URL, "supportedentities", url.Values{"language": {p.language}})
	for _, r := range opts.Rules {
		if len(r.Labels) == 0 {
			p.entities = nil
			break
		}
		p.entities = append(p.entities, r.Labels...)
	}
	return p, nil
}

// Tags implements [Classifier].
func (p *Presidio) Tags() []string { return p.service.tags }

// Classify implements [Classifier].
func (p *Presidio) Classify(ctx context.Context, in *Input, out *Result) error {
	return eachMessage(ctx, p, in, out)
}

type textToAnalyze struct {
	Text     string   `json:"text"`
	Language string   `json:"language"`
	Entities []string `json:"entities,omitempty"`
}

// entity is what was found; Start counts characters.
type entity struct {
	Type  string  `json:"entity_type"`
	Start int     `json:"start"`
	Score float64 `json:"score"`
}

// ClassifyMessages implements [MessageClassifier].
func (p *Presidio) ClassifyMessages(ctx context.Context, messages []Input, out []Result) error {
	has, err := p.recognized(ctx)
	if err != nil {
		return err
	}
	var refused error
	for i := range messages {
		if has.none || size(messages[i].Parts) > p.service.MaxText {
			p.service.unknown(&out[i])
			continue
		}
		text, starts := joined(messages[i].Parts)
		if strings.TrimSpace(text) == "" { // which an analyzer takes for a mistake
			p.service.absent(&out[i])
			continue
		}
		var entities []entity
		err := p.service.post(ctx, textToAnalyze{Text: text, Language: p.language, Entities: has.entities}, &entities)
		if errors.Is(err, ErrRefused) { // which says nothing of the other messages
			refused = err
			continue
		}
		if err != nil {
			return err
		}
		if entities == nil { // null, or nothing
			return fmt.Errorf("%w: not a list", ErrAnswer)
		}
		p.service.absent(&out[i])
		for _, tag := range has.unsure {
			out[i].Set(tag, policy.TagUnknown)
		}
		p.judge(&out[i], text, starts, entities)
	}
	return refused
}

// recognized asks, the first time, what the analyzer has of the types that rules name.
func (p *Presidio) recognized(ctx context.Context) (*recognized, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	known = &recognized{}
	if slices.ContainsFunc(p.service.rules, func(r Rule) bool { return len(r.Labels) > 0 }) {
		var has []string
		if err := p.service.get(ctx, p.supported, &has); err != nil {
			return nil, fmt.Errorf("the entity types that it supports: %w", err)
		}
		known.take(p, has)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	return known, nil
}

func (k *recognized) take(p *Presidio, has []string) {
	for i := range p.service.rules {
		r := &p.service.rules[i]
		if slices.ContainsFunc(r.Labels, func(label string) bool { return !slices.Contains(has, label) }) {
			k.unsure = append(k.unsure, r.Tag)
		}
	}
	for _, label := range p.entities {
		if slices.Contains(has, label) && !slices.Contains(k.entities, label) {
			k.entities = append(k.entities, label)
		}
	}
	k.none = len(p.entities) > 0 && len(k.entities) == 0
}

// beside is the address of what a service has beside another address of its own.
func beside(address, name string, query url.Values) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // it was parsed before: never
	}
	u.Path, u.RawPath = path.Join(path.Dir(strings.TrimSuffix(u.Path, "/")), name), ""
	also := u.Query()
	maps.Copy(also, query)
	u.RawQuery = also.Encode()
	return u.String()
}

func (p *Presidio) judge(out *Result, text string, starts []int, entities []entity) {
	slices.SortStableFunc(entities, func(a, b entity) int { return a.Start - b.Start })
	chars, at := 0, 0 // how far the text was walked
	for _, e := range entities {
		for chars < e.Start && at < len(text) {
			_, n := utf8.DecodeRuneInString(text[at:])
			at += n
			chars++
		}
		for k := range p.service.rules {
			r := &p.service.rules[k]
			if e.Score < r.MinScore || len(r.Labels) > 0 && !slices.Contains(r.Labels, e.Type) {
				continue
			}
			out.Set(r.Tag, policy.TagPresent)
			part := max(sort.SearchInts(starts, at+1)-1, 0)
			out.Find(r.Tag, Kind(e.Type), Place{Part: part, Offset: at - starts[part]})
		}
	}
}
