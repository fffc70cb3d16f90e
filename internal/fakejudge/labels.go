package fakejudge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Labels answers as vLLM's POST /classify does. A text has as many tokens as words.
type Labels struct {
	// Model is the served name; a request may leave it out.
	Model string
	// Names are the classes, "" for one that the model's configuration does not name.
	Names []string
	// Probs gives a text's probabilities, in the order of Names.
	Probs func(text string) []float64
	// Context is how many tokens a text may have.
	Context int
}

type labelsError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	} `json:"error"`
}

type labelled struct {
	Index   int       `json:"index"`
	Label   *string   `json:"label"`
	Probs   []float64 `json:"probs"`
	Classes int       `json:"num_classes"`
}

type labelsUsage struct {
	Prompt            int  `json:"prompt_tokens"`
	Total             int  `json:"total_tokens"`
	Completion        int  `json:"completion_tokens"`
	PromptDetails     *int `json:"prompt_tokens_details"`
	CompletionDetails *int `json:"completion_tokens_details"`
}

// ServeHTTP implements [http.Handler].
func (l Labels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		answer(w, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
		return
	}
	var asked struct {
		Model string `json:"model"`
		Input *texts `json:"input"`
		Cut   int    `json:"truncate_prompt_tokens"`
	}
	err := json.NewDecoder(r.Body).Decode(&asked)
	switch {
	case err != nil:
		l.refuse(w, http.StatusBadRequest, "Bad Request", "body.1", "validation error: JSON decode error")
		return
	case asked.Input == nil:
		l.refuse(w, http.StatusBadRequest, "Bad Request", "body.input", "validation error: field required")
		return
	case asked.Model != "" && asked.Model != l.Model:
		l.refuse(w, http.StatusNotFound, "NotFoundError", "", fmt.Sprintf("there is no model %q", asked.Model))
		return
	case len(*asked.Input) == 0:
		l.refuse(w, http.StatusBadRequest, "BadRequestError", "", "there is no prompt")
		return
	default:
	}
	var data []labelled
	tokens := 0
	for i, text := range *asked.Input {
		words := len(strings.Fields(text))
		switch {
		case text == "":
			l.refuse(w, http.StatusBadRequest, "BadRequestError", "", "a prompt is empty")
			return
		case words > l.Context && asked.Cut == 0:
			l.refuse(w, http.StatusBadRequest, "BadRequestError", "input_tokens", fmt.Sprintf("a prompt has more than %d tokens", l.Context))
			return
		default:
		}
		tokens += min(words, l.Context)
		data = append(data, l.judge(i, text))
	}
	answer(w, http.StatusOK, map[string]any{
		"id": "classify-1", "object": "list", "created": created, "model": l.Model,
		"data": data, "usage": labelsUsage{Prompt: tokens, Total: tokens},
	})
}

func (l Labels) judge(i int, text string) labelled {
	probs := l.Probs(text)
	best := 0
	for k, p := range probs {
		if p > probs[best] {
			best = k
		}
	}
	d := labelled{Index: i, Probs: probs, Classes: len(probs)}
	if name := l.Names[best]; name != "" {
		d.Label = &name
	}
	return d
}

func (l Labels) refuse(w http.ResponseWriter, status int, kind, param, why string) {
	var e labelsError
	e.Error.Message, e.Error.Type, e.Error.Code = why, kind, status
	if param != "" {
		e.Error.Param = &param
	}
	answer(w, status, e)
}
