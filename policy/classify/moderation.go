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
		Categories map[string]*bool   `json:"categories"` // null of what the model doesn't know
		Scores     map[string]float64 `json:"category_scores"`
	} `json:"results"`
}

// ClassifyMessages implements [MessageClassifier].
func (m *Moderation) ClassifyMessages(ctx context.Context, messages []Input, out []Result) error {
	return m.service.inBatches(ctx, messages, out, func(ctx context.Context, texts []string) ([]Result, error) {
		var a moderated
		if err := m.service.post(ctx, textsToJudge{Model: m.model, Input: texts}, &a); err != nil {
			return nil, err
		}
		if len(a.Results) != len(texts) {
			return nil, fmt.Errorf("%w: %d results for %d texts", ErrAnswer, len(a.Results), len(texts))
		}
		judged := make([]Result, len(texts))
		for i := range a.Results {
			r := &a.Results[i]
			if r.Flagged == nil {
				return nil, fmt.Errorf("%w: a result has no verdict", ErrAnswer)
			}
			m.service.absent(&judged[i])
			for k := range m.service.rules {
				if err := moderate(&judged[i], &m.service.rules[k], *r.Flagged, r.Categories, r.Scores); err != nil {
					return nil, err
				}
			}
		}
		return judged, nil
	})
}

// moderate applies a rule. A category that the service doesn't know can't be absent.
func moderate(out *Result, r *Rule, flagged bool, categories map[string]*bool, scores map[string]float64) error {
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
			is, listed := categories[label]
			switch {
			case r.MinScore > 0 && !scored, r.MinScore == 0 && !listed, listed && is == nil:
				return fmt.Errorf("%w: it has no category %q, which a Rule names", ErrAnswer, label)
			case r.MinScore > 0 && score >= r.MinScore, r.MinScore == 0 && *is:
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
	// Classes, if not empty, are all the classes that the model has. An answer with
	// another label, or of another number of classes, is then not believed. Without them
	// a Rule whose Labels the model doesn't have finds nothing for good: nothing in an
	// answer shows it. A model whose configuration names no classes calls them LABEL_0,
	// LABEL_1 and so on.
	Classes []string
}

// Labels asks an endpoint that gives each text one label, as vLLM's POST /classify
// does with a sequence classification model, several messages at a time. A text
// beyond the model's context is refused by the engine, and its tags are unknown: set
// MaxText below that to spare the call. It is safe for concurrent use.
type Labels struct {
	service *service
	model   string
	classes []string
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
		for _, name := range r.Labels {
			if len(opts.Classes) > 0 && !slices.Contains(opts.Classes, name) {
				return nil, fmt.Errorf("classify: the Rule of %q names the label %q, which is none of the Classes", r.Tag, name)
			}
		}
	}
	return &Labels{service: s, model: opts.Model, classes: slices.Clone(opts.Classes)}, nil
}

// Tags implements [Classifier].
func (l *Labels) Tags() []string { return l.service.tags }

// Classify implements [Classifier].
func (l *Labels) Classify(ctx context.Context, in *Input, out *Result) error {
	return eachMessage(ctx, l, in, out)
}

type labelled struct {
	Data []struct {
		Index   int       `json:"index"`
		Label   string    `json:"label"`
		Probs   []float64 `json:"probs"`
		Classes int       `json:"num_classes"`
	} `json:"data"`
}

// ClassifyMessages implements [MessageClassifier].
func (l *Labels) ClassifyMessages(ctx context.Context, messages []Input, out []Result) error {
	return l.service.inBatches(ctx, messages, out, func(ctx context.Context, texts []string) ([]Result, error) {
		var a labelled
		if err := l.service.post(ctx, textsToJudge{Model: l.model, Input: texts}, &a); err != nil {
			return nil, err
		}
		if len(a.Data) != len(texts) {
			return nil, fmt.Errorf("%w: %d labels for %d texts", ErrAnswer, len(a.Data), len(texts))
		}
		judged := make([]Result, len(texts))
		for _, d := range a.Data {
			if d.Index < 0 || d.Index >= len(texts) || len(judged[d.Index].Tags) > 0 || d.Label == "" {
				return nil, fmt.Errorf("%w: labels that are of no text, or empty", ErrAnswer)
			}
			if len(l.classes) > 0 && (d.Classes != len(l.classes) || !slices.Contains(l.classes, d.Label)) {
				return nil, fmt.Errorf("%w: the model has other Classes than it is said to have", ErrAnswer)
			}
			l.service.absent(&judged[d.Index])
			for k := range l.service.rules {
				if err := label(&judged[d.Index], &l.service.rules[k], d.Label, d.Probs); err != nil {
					return nil, err
				}
			}
		}
		return judged, nil
	})
}

// label applies a rule. The probability of the label is the greatest: that is why the
// service settled for it.
func label(out *Result, r *Rule, name string, probs []float64) error {
	switch {
	case !slices.Contains(r.Labels, name):
	case r.MinScore > 0 && len(probs) == 0:
		return fmt.Errorf("%w: a label has no probability, for which a Rule asks", ErrAnswer)
	case r.MinScore == 0 || slices.Max(probs) >= r.MinScore:
		found(out, r, name)
	default:
	}
	return nil
}
