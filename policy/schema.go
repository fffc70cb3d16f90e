package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
)

// schema is a JSON Schema.
type schema map[string]any

// schemas collects those that have a name.
type schemas struct {
	defs map[string]schema
}

// define refers to the schema of a name, and makes it the first time.
func (s *schemas) define(name string, build func() schema) schema {
	if _, ok := s.defs[name]; !ok {
		s.defs[name] = nil
		s.defs[name] = build()
	}
	return schema{"$ref": "#/$defs/" + name}
}

func objectSchema[T any](s *schemas, fields []field[T]) schema {
	properties := make(map[string]schema, len(fields))
	var required []string
	for i := range fields {
		f := &fields[i]
		properties[f.name] = described(f.schema(s), f.doc)
		if f.required {
			required = append(required, f.name)
		}
	}
	out := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// described is a copy with a description.
func described(s schema, doc string) schema {
	out := make(schema, len(s)+1)
	maps.Copy(out, s)
	if doc != "" {
		out["description"] = doc
	}
	return out
}

func wordSchema[T any](words []word[T]) schema {
	names := make([]string, len(words))
	docs := make([]string, len(words))
	for i := range words {
		names[i] = words[i].text
		docs[i] = words[i].doc
	}
	return schema{"enum": names, "enumDescriptions": docs}
}

func metadataSchema() schema {
	name := schema{"type": "string", "minLength": 1}
	return schema{
		"type": "object", "required": []string{"name"},
		"properties": map[string]schema{
			"name": described(name, "The policy's name in decisions."),
			"namespace": described(schema{"type": "string"},
				"Its namespace; policies of equal priority are asked in the order of namespace and name."),
		},
	}
}

//go:generate go test -run TestSchemaIsCurrent -update-schema .

// Schema returns the JSON Schema (2020-12) of policies, for editors: it has every key
// that [Parse] knows under [APIVersion], because both come from the same tables. It
// is docs/policy-schema.json.
func Schema() ([]byte, error) {
	s := &schemas{defs: make(map[string]schema)}
	form := documentForm()
	root := schema{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "KVSteer " + Kind,
		"description": "A routing policy: which backends may serve which requests, and in which order.",
	}
	maps.Copy(root, form.schema(s))
	root["$defs"] = s.defs
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("policy: the schema: %w", err)
	}
	return out.Bytes(), nil
}
