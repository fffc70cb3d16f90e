package file

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/providers"
)

// Factory makes a kind of provider, by what its manifest has as options. It is called once
// for the same options as long as a Source is open; an error, or a panic, says what is wrong
// with them.
type Factory func(options map[string]string) (providers.Kind, error)

// builtin are the kinds of package providers.
func builtin() map[string]Factory {
	return map[string]Factory{
		"OpenAI": func(o map[string]string) (providers.Kind, error) {
			return providers.OpenAI{MaxTokensField: o["maxTokensField"]}, only(o, "maxTokensField")
		},
		"Gemini": func(o map[string]string) (providers.Kind, error) { return providers.Gemini{}, only(o) },
		"Anthropic": func(o map[string]string) (providers.Kind, error) {
			return providers.Anthropic{Bearer: o["bearer"] == "true"}, only(o, "bearer")
		},
		"AzureOpenAI": func(o map[string]string) (providers.Kind, error) {
			return providers.AzureOpenAI{APIVersion: o["apiVersion"], Entra: o["entra"] == "true"}, only(o, "apiVersion", "entra")
		},
	}
}

// only refuses options that a kind doesn't have, and values that an option can't have.
func only(options map[string]string, names ...string) error {
	for _, key := range slices.Sorted(maps.Keys(options)) {
		value := options[key]
		switch {
		case !slices.Contains(names, key) && len(names) == 0:
			return fmt.Errorf("there is no option %s; the kind has none", yamlnode.Quote(key))
		case !slices.Contains(names, key):
			return fmt.Errorf("there is no option %s; %s", yamlnode.Quote(key), yamlnode.Suggest(key, names))
		case (key == "bearer" || key == "entra") && value != "true" && value != "false":
			return fmt.Errorf("the option %s must be true or false", key)
		case key == "maxTokensField" && value != "max_tokens" && value != "max_completion_tokens":
			return fmt.Errorf("the option %s must be max_tokens or max_completion_tokens", key)
		}
	}
	return nil
}

const defaultKind = "OpenAI"

// kindOf finds the kind, whose name may be written in any case. The same kind with the
// same options stays one thing, so that what was learned of the provider is kept.
func (p *parser) kindOf(s *spec, root *yaml.Node) providers.Kind {
	name := s.kind
	if name == "" {
		name = defaultKind
	}
	at := p.places["Kind"]
	if at == nil {
		at = root
	}
	factories := builtin()
	for _, own := range slices.Sorted(maps.Keys(p.opts.Kinds)) { // counts more, in whatever case its name is written
		maps.DeleteFunc(factories, func(n string, _ Factory) bool { return strings.EqualFold(n, own) })
		factories[own] = p.opts.Kinds[own]
	}
	names := slices.Sorted(maps.Keys(factories))
	i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	if i < 0 {
		p.fail(at, "there is no kind "+yamlnode.Quote(name)+" of providers; "+yamlnode.Suggest(name, names))
		return nil
	}
	options := []string{names[i]}
	for _, key := range slices.Sorted(maps.Keys(s.options)) {
		options = append(options, key, s.options[key])
	}
	id := strings.Join(options, "\x00")
	for _, known := range []map[string]providers.Kind{p.used, p.kinds} {
		if k := known[id]; k != nil {
			p.used[id] = k
			return k
		}
	}
	k, err := makeKind(factories[names[i]], maps.Clone(s.options))
	switch {
	case err != nil:
		p.fail(at, "options: "+err.Error())
		return nil
	case k == nil:
		p.fail(at, "the program makes nothing of the kind "+yamlnode.Quote(name))
		return nil
	}
	p.used[id] = k
	return k
}

// makeKind calls a factory, whose panic is an error: a reload must not end the program.
func makeKind(f Factory, options map[string]string) (k providers.Kind, err error) {
	defer func() {
		if recover() != nil { // what it says may hold a secret
			k, err = nil, errors.New("the program's factory of the kind panicked")
		}
	}()
	if f == nil {
		return nil, nil //nolint:nilnil // as one that makes nothing
	}
	return f(options)
}
