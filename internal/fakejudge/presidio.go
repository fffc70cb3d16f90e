package fakejudge

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
)

// Presidio answers as the analyzer does in its container: POST /analyze, GET
// /supportedentities and GET /health. It takes one text at a time, though the real one
// takes lists as well.
type Presidio struct {
	// Language is the one that it has.
	Language string
	// Entities are the types that it has recognizers for.
	Entities []string
	// Find finds entities of any type; those that were not asked for are left out.
	Find func(text string) []Entity
}

// Entity is what was found. Start and End count characters.
type Entity struct {
	Type       string   `json:"entity_type"`
	Start      int      `json:"start"`
	End        int      `json:"end"`
	Score      float64  `json:"score"`
	Explaining *float64 `json:"analysis_explanation"` // always null
}

var (
	errNoRecognizer = errors.New("no matching recognizers were found to serve the request")
	errNoText       = errors.New("no text provided")
	errNoLanguage   = errors.New("no language provided")
)

// ServeHTTP implements [http.Handler].
func (p Presidio) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/health":
		answer(w, http.StatusOK, "up")
	case r.Method == http.MethodGet && r.URL.Path == "/supportedentities":
		if language := r.URL.Query().Get("language"); language != "" && language != p.Language {
			failed(w, http.StatusInternalServerError, errNoRecognizer)
			return
		}
		answer(w, http.StatusOK, p.Entities)
	case r.Method == http.MethodPost && r.URL.Path == "/analyze":
		p.analyze(w, r)
	case r.URL.Path == "/analyze" || r.URL.Path == "/supportedentities" || r.URL.Path == "/health":
		failed(w, http.StatusMethodNotAllowed, errors.New("not that method"))
	default:
		failed(w, http.StatusNotFound, errors.New("not here"))
	}
}

func (p Presidio) analyze(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Text     string   `json:"text"`
		Language string   `json:"language"`
		Entities []string `json:"entities"`
	}
	if r.Header.Get("Content-Type") != "application/json" {
		failed(w, http.StatusUnsupportedMediaType, errors.New("the request is not said to be JSON"))
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		failed(w, http.StatusBadRequest, errors.New("the request is not understood"))
		return
	}
	has := func(name string) bool { return slices.Contains(p.Entities, name) }
	switch {
	case asked.Text == "":
		failed(w, http.StatusInternalServerError, errNoText)
		return
	case asked.Language == "":
		failed(w, http.StatusInternalServerError, errNoLanguage)
		return
	case asked.Language != p.Language, len(asked.Entities) > 0 && !slices.ContainsFunc(asked.Entities, has):
		failed(w, http.StatusInternalServerError, errNoRecognizer)
		return
	default:
	}
	found := []Entity{}
	for _, e := range p.Find(asked.Text) {
		if has(e.Type) && (len(asked.Entities) == 0 || slices.Contains(asked.Entities, e.Type)) {
			found = append(found, e)
		}
	}
	answer(w, http.StatusOK, found)
}

func failed(w http.ResponseWriter, status int, why error) {
	answer(w, status, map[string]string{"error": why.Error()})
}
