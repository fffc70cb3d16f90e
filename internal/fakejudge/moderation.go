package fakejudge

import (
	"encoding/json"
	"net/http"
)

// flaggedFrom is the score from which a text is of a category.
const flaggedFrom = 0.5

// Categories lists those of the omni-moderation models.
func Categories() []string {
	return []string{
		"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
		"self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
	}
}

// Moderation answers as OpenAI's POST /v1/moderations does.
type Moderation struct {
	// Score says how much of some categories, from 0 to 1, is in a text; nil for none. A
	// score of 0.5 or more flags the text.
	Score func(text string) map[string]float64
	// Older: the model is of the kind that knows nothing of "illicit": it says null of the
	// category, and 0 of the score, which may not be null.
	Older bool
	// Most is how many texts are taken at once, 0 for any number.
	Most int
	// Longest is how many bytes a text may have, 0 for any number.
	Longest int
}

type moderationError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

type moderation struct {
	Flagged    bool                `json:"flagged"`
	Categories map[string]*bool    `json:"categories"`
	Scores     map[string]float64  `json:"category_scores"`
	InputTypes map[string][]string `json:"category_applied_input_types"`
}

// ServeHTTP implements [http.Handler].
func (m Moderation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model string `json:"model"`
		Input texts  `json:"input"`
	}
	err := json.NewDecoder(r.Body).Decode(&asked)
	switch {
	case r.Method != http.MethodPost:
		refuse(w, http.StatusMethodNotAllowed, "Only POST is taken here.")
		return
	case err != nil || len(asked.Input) == 0:
		refuse(w, http.StatusBadRequest, "The input is not there, or is no text and no list of texts.")
		return
	case m.Most > 0 && len(asked.Input) > m.Most:
		refuse(w, http.StatusBadRequest, "There are too many texts.")
		return
	default:
	}
	results := make([]moderation, 0, len(asked.Input))
	for _, text := range asked.Input {
		if m.Longest > 0 && len(text) > m.Longest {
			refuse(w, http.StatusBadRequest, "A text is too long.")
			return
		}
		results = append(results, m.judge(text))
	}
	if asked.Model == "" {
		asked.Model = "omni-moderation-latest"
	}
	answer(w, http.StatusOK, map[string]any{"id": "modr-1", "model": asked.Model, "results": results})
}

func (m Moderation) judge(text string) moderation {
	var scores map[string]float64
	if m.Score != nil {
		scores = m.Score(text)
	}
	out := moderation{Categories: map[string]*bool{}, Scores: map[string]float64{}, InputTypes: map[string][]string{}}
	for _, name := range Categories() {
		out.InputTypes[name] = []string{"text"}
		if m.Older && (name == "illicit" || name == "illicit/violent") {
			out.Categories[name], out.Scores[name] = nil, 0
			continue
		}
		score := scores[name]
		is := score >= flaggedFrom
		out.Categories[name], out.Scores[name] = &is, score
		out.Flagged = out.Flagged || is
	}
	return out
}

func refuse(w http.ResponseWriter, status int, why string) {
	var e moderationError
	e.Error.Message, e.Error.Type = why, "invalid_request_error"
	answer(w, status, e)
}
