package prompt

import (
	_ "embed" // for the probes
	"slices"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// Probe is a prompt whose ids are compared with an engine's.
type Probe struct {
	// Name appears in reports.
	Name string
	API  API
	// Body is the request's JSON, without a model. Its tokens may appear in reports
	// and logs.
	Body string
}

// probesFile holds what a tokenizer, a template and the conversion of a request
// can get wrong, as requests. The plainest comes first: it fails where all else
// would.
//
//go:embed probes.json
var probesFile []byte

// builtinProbes reads the probes of the file, of which tests say that it is well
// formed.
func builtinProbes() []Probe {
	list, err := jsonscan.ParseValue(probesFile, 0)
	if err != nil {
		return nil
	}
	probes := make([]Probe, 0, list.Len())
	for it := list.Iter(); it.Next(); {
		name, _ := it.Value().Get("name").Str()
		api, _ := it.Value().Get("api").Str()
		probes = append(probes, Probe{Name: name, API: apiNamed(api), Body: string(it.Value().Get("body").Raw())})
	}
	return slices.Clip(probes)
}

func apiNamed(name string) API {
	for a := Chat; int(a) < numAPIs; a++ {
		if a.String() == name {
			return a
		}
	}
	return 0
}
