package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
)

//go:generate go test -run TestSchemaIsCurrent -update-schema .

// Schema returns the JSON Schema (2020-12) of manifests, for editors. Its keys and those
// that [Parse] knows come from the same tables. It is docs/provider-schema.json.
func Schema() ([]byte, error) {
	root := node{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "KVSteer " + Kind,
		"description": "An external service that requests can be sent to.",
	}
	maps.Copy(root, objectSchema(documentFields()))
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("providers/file: the schema: %w", err)
	}
	return out.Bytes(), nil
}
