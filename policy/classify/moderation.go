package classify

import (
	"context"
	"fmt"
	"slices"
)

// ModerationOptions configures a [Moderation].
type ModerationOptions struct {
	Endpoint

	// Model is sent along, if not empty.
	Model string
	// Rules are required. Labels are categories, such as "self-harm"; without any the
	// rule goes by the service's verdict (or, with MinScore, by its highest score).
	Rules []Rule
}

// Moderation asks an endpoint that speaks OpenAI's moderations API, POST
// /v1/moderations, several messages at a time. It is safe for concurrent use.
type Moderation struct {
	service *service
	model   string
}

// NewModeration returns a Moderation. The error says what is missing.
func NewModeration(opts ModerationOptions) (*Moderation, error) {
	s, err := newService(opts.Endpoint, opts.Rules)
	if err != nil {
		return nil, err
	}
	return &Moderation{service: s, model: opts.Model}, nil
}

// Tags implements [Classifier].
func (m *Moderation) Tags() []string { return m.service.tags }

// Classify implements [Classifier].
func (m *Moderation) Classify(ctx context.Context, in *Input, out *Result) error {
	return eachMessage(ctx, m, in, out)
}

// textsToJudge is what OpenAI's and vLLM's endpoints are sent.
type textsToJudge struct {
	Model string   `json:"model,omitempty"`
	Input []string `json:"input"`
}

type moderated struct {
	Results []struct {
		Flagged    *bool              `json:"flagged"`
		Categories map[string]bool    `json:"categories"`
		Scores     map[string]float64 `json:"category_scores"`
	} `json:"results"`
}

// ClassifyMessages implements [MessageClassifier].
func (m *Moderation) ClassifyMessages(ctx context.Context, messages []Input, out []Result) error {
	return m.service.batches(messages, out, func(texts []string, out []*Result) error {
		var a moderated
		if err := m.service.post(ctx, textsToJudge{Model: m.model, Input: texts}, &a); err != nil {
			return err
		}
		if len(a.Results) != len(texts) {
			return fmt.Errorf("%w: %d results for %d texts", ErrAnswer, len(a.Results), len(texts))
		}
		for i := range a.Results {
			r := &a.Results[i]
			if r.Flagged == nil {
				return fmt.Errorf("%w: a result has no verdict", ErrAnswer)
			}
			var judged Result
			m.service.absent(&judged)
			for k := range m.service.rules {
				if err := moderate(&judged, &m.service.rules[k], *r.Flagged, r.Categories, r.Scores); err != nil {
					return err
				}
			}
			*out[i] = judged
		}
		return nil
	})
}

// moderate applies a rule. A category that the service doesn't know can't be absent.
func moderate(out *Result, r *Rule, flagged bool, categories map[string]bool, scores map[string]float64) error {
	const verdict = "flagged"
	switch {
	case len(r.Labels) == 0 && r.MinScore == 0:
		if flagged {
			found(out, r, verdict)
		}
	case len(r.Labels) == 0:
		if len(scores) == 0 {
			return fmt.Errorf("%w: a result has no scores", ErrAnswer)
		}
		for _, score := range scores {
			if score >= r.MinScore {
				found(out, r, verdict)
				break
			}
		}
	default:
		for _, label := range r.Labels {
			score, scored := scores[label]
			is, known := categories[label]
			switch {
			case r.MinScore > 0 && !scored, r.MinScore == 0 && !known:
				return fmt.Errorf("%w: it has no category %q, which a Rule names", ErrAnswer, label)
			case r.MinScore > 0 && score >= r.MinScore, r.MinScore == 0 && is:
				found(out, r, label)
			default:
			}
		}
	}
	return nil
}

// LabelsOptions configures a [Labels].
type LabelsOptions struct {
	Endpoint

	// Model is sent along, if not empty.
	Model string
	// Rules are required, and so are their Labels: classes of the model. MinScore is
	// the least probability of the class that it settles for.
	Rules []Rule
}

// Labels asks an endpoint that gives each text one label, as vLLM's POST /classify
// does with a sequence classification model, several messages at a time. A text
// beyond the model's context is cut or refused by the engine: set MaxText so that
// none is cut. It is safe for concurrent use.
type Labels struct {
	service *service
	model   string
}

// NewLabels returns a Labels. The error says what is missing.
func NewLabels(opts LabelsOptions) (*Labels, error) {
	s, err := newService(opts.Endpoint, opts.Rules)
	if err != nil {
		return nil, err
	}
	for _, r := range opts.Rules {
		if len(r.Labels) == 0 {
			return nil, fmt.Errorf("classify: the Rule of %q has no Labels, and each text has some label", r.Tag)
		}
	}
	return &Labels{service: s, model: opts.Model}, nil
}

// Tags implements [Classifier].
func (l *Labels) Tags() []string { return l.service.tags }

// Classify implements [Classifier].
func (l *Labels) Classify(ctx context.Context, in *Input, out *Result) error {
	return eachMessage(ctx, l, in, out)
}

type labelled struct {
	Data []struct {
		Index int       `json:"index"`
		Label string    `json:"label"`
		Probs []float64 `json:"probs"`
	} `json:"data"`
}

// ClassifyMessages implements [MessageClassifier].
func (l *Labels) ClassifyMessages(ctx context.Context, messages []Input, out []Result) error {
	return l.service.batches(messages, out, func(texts []string, out []*Result) error {
		var a labelled
		if err := l.service.post(ctx, textsToJudge{Model: l.model, Input: texts}, &a); err != nil {
			return err
		}
		if len(a.Data) != len(texts) {
			return fmt.Errorf("%w: %d labels for %d texts", ErrAnswer, len(a.Data), len(texts))
		}
		judged := make([]bool, len(texts))
		for _, d := range a.Data {
			if d.Index < 0 || d.Index >= len(texts) || judged[d.Index] || d.Label == "" {
				return fmt.Errorf("%w: labels that are of no text, or empty", ErrAnswer)
			}
			judged[d.Index] = true
			probability := 0.0
			for _, p := range d.Probs {
				probability = max(probability, p)
			}
			l.service.absent(out[d.Index])
			for k := range l.service.rules {
				r := &l.service.rules[k]
				if slices.Contains(r.Labels, d.Label) && probability >= r.MinScore {
					found(out[d.Index], r, d.Label)
				}
			}
		}
		return nil
	})
}
