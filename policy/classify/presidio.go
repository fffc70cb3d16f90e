package classify

import (
	"context"
	"fmt"
	"slices"
	"sort"
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
type Presidio struct {
	service  *service
	language string
	entities []string // nil for all
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
	for i := range messages {
		if size(messages[i].Parts) > p.service.MaxText {
			p.service.unknown(&out[i])
			continue
		}
		text, starts := joined(messages[i].Parts)
		var entities []entity
		if err := p.service.post(ctx, textToAnalyze{Text: text, Language: p.language, Entities: p.entities}, &entities); err != nil {
			return err
		}
		if entities == nil { // null, or nothing
			return fmt.Errorf("%w: not a list", ErrAnswer)
		}
		p.service.absent(&out[i])
		p.judge(&out[i], text, starts, entities)
	}
	return nil
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
