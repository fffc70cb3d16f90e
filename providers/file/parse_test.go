package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/file"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

const everyKey = "testdata/providers.yaml"

func TestRead(t *testing.T) {
	list, err := file.Read(everyKey, file.Options{})
	require.NoError(t, err)
	require.Len(t, list, 4)
	p := list[0]
	require.Equal(t, providers.Provider{
		Name: "openai", Kind: providers.OpenAI{MaxTokensField: "max_completion_tokens"}, URL: "http://openai.test/v1", Credentials: providers.File(filepath.Join("testdata", "secrets", "openai")),
		Labels: map[string]string{"region": "us", "contract": "standard"}, Header: map[string][]string{"Openai-Organization": {"org-1"}},
		MaxConcurrent: 64, Paths: []string{"/v1/files", "/v1/batches"},
		Models: []providers.Model{
			{
				Name: "gpt-4o", Upstream: "gpt-4o-2024-11-20", ContextWindow: 128_000, MaxOutput: 16384, Labels: map[string]string{"family": "gpt"},
				Capabilities: providers.Capabilities{
					Images: providers.SupportYes, Documents: providers.SupportYes, Audio: providers.SupportNo, Tools: providers.SupportYes,
					JSONSchema: providers.SupportYes, Reasoning: providers.SupportNo,
				},
				Prices: &price.Prices{
					Input: 2_500_000, Output: 10_000_000, CacheRead: price.At(1_250_000), CacheWrite: price.At(2_500_000), Reasoning: price.At(10_000_000),
				},
				Prior: providers.Prior{TTFT: 500 * time.Millisecond, TTFTPerThousand: 40 * time.Millisecond, ITL: 15 * time.Millisecond},
			},
			{Name: "gpt-4o-mini"},
			{Name: "embed", Upstream: "text-embedding-3-small", APIs: []prompt.API{prompt.Embeddings}},
		},
	}, p)
	require.Equal(t, []any{providers.Anthropic{}, true}, []any{list[1].Kind, list[1].KeepModel})
	require.Equal(t, []any{providers.AzureOpenAI{APIVersion: "2024-10-21"}, []prompt.API{prompt.Chat, prompt.Embeddings}}, []any{list[2].Kind, list[2].APIs})
	require.Equal(t, []any{providers.Gemini{}, "http://gemini.test/v1beta/openai"}, []any{list[3].Kind, list[3].URL})
}

// "kvsteer check" and policies know the same manifests by their names and models.
func TestPoliciesKnowTheNames(t *testing.T) {
	text, err := os.ReadFile(everyKey)
	require.NoError(t, err)
	f, findings := policy.Parse(everyKey, text)
	require.Empty(t, findings)
	list, err := file.Read(everyKey, file.Options{})
	require.NoError(t, err)
	require.Len(t, f.Manifests, len(list))
	for i, m := range f.Manifests {
		var models []string
		for _, model := range list[i].Models {
			models = append(models, model.Name)
		}
		require.Equal(t, []any{list[i].Name, models}, []any{m.Name, m.Models})
	}
	require.Empty(t, policy.Check([]*policy.File{f}, policy.CheckOptions{Together: true}))
	other, findings := policy.Parse(everyKey, []byte(strings.Replace(string(text), "order: [openai, azure]", "order: [openai, azur]", 1)))
	require.Empty(t, findings)
	wrong := policy.Check([]*policy.File{other}, policy.CheckOptions{Together: true})
	require.Len(t, wrong, 1)
	require.Contains(t, wrong[0].String(), `did you mean "azure"?`)
}

func TestForms(t *testing.T) {
	for name, text := range map[string]string{
		"JSON":            "{\"apiVersion\":\"kvsteer.dev/v1alpha1\",\n\t\"kind\":\"InferenceProvider\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"models\":[\"m\"]}}",
		"status":          manifest("a", "m") + "status: {conditions: []}\n",
		"a List":          "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: kvsteer.dev/v1alpha1, kind: InferenceProvider, metadata: {name: a}, spec: {models: [m]}}\n",
		"empty documents": "---\n---\n" + manifest("a", "m") + "---\n",
		"anchors":         "apiVersion: kvsteer.dev/v1alpha1\nkind: InferenceProvider\nmetadata: {name: a}\nspec:\n  models:\n  - &m {name: m}\n",
		"others beside": "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n---\n" + manifest("a", "m") +
			"---\napiVersion: kvsteer.dev/v1alpha1\nkind: InferencePool\nmetadata: {name: p}\nspec: {anything: 1}\n",
		"case of the kind": spec("  kind: openai\n  models: [m]\n"),
	} {
		t.Run(name, func(t *testing.T) {
			list, err := file.Parse("p.yaml", []byte(text), file.Options{})
			require.NoError(t, err)
			require.Equal(t, []providers.Provider{{Name: "a", Kind: providers.OpenAI{}, Models: []providers.Model{{Name: "m"}}}}, list)
		})
	}
	list, err := file.Parse("p.yaml", []byte(" \n"), file.Options{})
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = file.Read(filepath.Join("testdata", "secrets", "openai"), file.Options{})
	require.ErrorContains(t, err, "must be a mapping")
}

const secret = "sk-0123456789abcdef0123456789"

// Each mistake is told with its place and what to do, and no secret is shown.
func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":         {"a: [", "p.yaml:2:1: not YAML"},
		"a text":          {"hello", "p.yaml:1:1: a document must be a mapping"},
		"no kind":         {"spec: {}", "p.yaml:1:1: the document has no kind; write apiVersion: kvsteer.dev/v1alpha1"},
		"another version": {strings.Replace(manifest("a", "m"), "v1alpha1", "v2", 1), `apiVersion is "kvsteer.dev/v2"; write kvsteer.dev/v1alpha1`},
		"another group":   {strings.Replace(manifest("a", "m"), "kvsteer.dev/v1alpha1", "example.com/v1", 1), "write kvsteer.dev/v1alpha1"},
		"misspelt kind":   {strings.Replace(manifest("a", "m"), "InferenceProvider", "InferenceProvidr", 1), `did you mean "InferenceProvider"?`},
		"no name":         {strings.Replace(manifest("a", "m"), "name: a", "", 1), "p.yaml:3:11: metadata has no name"},
		"no metadata":     {"apiVersion: kvsteer.dev/v1alpha1\nkind: InferenceProvider\nspec: {models: [m]}", "p.yaml:1:1: the manifest has no metadata"},
		"no spec":         {"apiVersion: kvsteer.dev/v1alpha1\nkind: InferenceProvider\nmetadata: {name: a}", "the manifest has no spec; add it"},
		"misspelt key":    {spec("  modells: [m]\n"), `p.yaml:5:3: provider "a": spec has no key "modells"; did you mean "models"?`},
		"twice":           {spec("  url: a\n  url: b\n"), `p.yaml:6:3: provider "a": the key "url" is given twice`},
		"unknown kind":    {spec("  kind: Antropic\n  models: [m]\n"), `p.yaml:5:9: provider "a": there is no kind "Antropic" of providers; did you mean "Anthropic"?`},
		"bedrock":         {spec("  kind: Bedrock\n  models: [m]\n"), `there is no kind "Bedrock" of providers; it has Anthropic, AzureOpenAI, Gemini, OpenAI`},
		"unknown option":  {spec("  kind: AzureOpenAI\n  options: {apiversion: x}\n  models: [m]\n"), `there is no option "apiversion"; did you mean "apiVersion"?`},
		"option of none":  {spec("  kind: Gemini\n  options: {a: b}\n  models: [m]\n"), `p.yaml:6:12: provider "a": options: there is no option "a"; the kind has none`},
		"bound's field":   {spec("  options: {maxTokensField: maxTokens}\n  models: [m]\n"), `p.yaml:5:12: provider "a": options: the option maxTokensField must be max_tokens or max_completion_tokens`},
		"half an option":  {spec("  kind: Anthropic\n  options: {bearer: yes}\n  models: [m]\n"), "the option bearer must be true or false"},
		"models of none":  {spec("  models: []\n"), "p.yaml:5:11: provider \"a\": models is empty; leave it out"},
		"models of one":   {spec("  models: m\n"), `models must be a list, found "m"`},
		"no model's name": {spec("  models:\n  - {upstreamName: x}\n"), `p.yaml:6:5: provider "a": an entry of models has no name; add it`},
		"model's key":     {spec("  models:\n  - {name: m, upstream: x}\n"), `p.yaml:6:15: provider "a": an entry of models has no key "upstream"; did you mean`},
		"context of text": {spec("  models:\n  - {name: m, contextWindow: 128k}\n"), `contextWindow must be a whole number, found "128k"`},
		"context of 0":    {spec("  models:\n  - {name: m, contextWindow: 0}\n"), "contextWindow must be at least 1; leave it out"},
		"supports":        {spec("  models:\n  - {name: m, supports: {vision: true}}\n"), `supports has no key "vision"`},
		"supports text":   {spec("  models:\n  - {name: m, supports: {tools: some}}\n"), "supports.tools must be true or false"},
		"no output price": {spec("  models:\n  - {name: m, prices: {input: 1}}\n"), "prices has no output; add it"},
		"fine price":      {spec("  models:\n  - {name: m, prices: {input: 0.0000001, output: 1}}\n"), "prices.input must be an amount with at most 6 digits"},
		"negative price":  {spec("  models:\n  - {name: m, prices: {input: -1, output: 1}}\n"), "prices.input must be an amount"},
		"prior":           {spec("  models:\n  - {name: m, prior: {betweenTokens: 20}}\n"), "betweenTokens must be a duration such as"},
		"API":             {spec("  apis: [chat, message]\n  models: [m]\n"), `p.yaml:5:16: provider "a": "message" is no API; did you mean "messages"?`},
		"two regions":     {spec("  region: a\n  labels: {region: b}\n  models: [m]\n"), "region and the label region are different"},
		"the key itself":  {spec("  credentials: " + secret + "\n  models: [m]\n"), `p.yaml:5:16: provider "a": credentials must be a mapping of keys to values, found another text`},
		"the key as key":  {spec("  credentials: {" + secret + ": x}\n  models: [m]\n"), "credentials has no such key; it has file, name, key"},
		"key as list":     {spec("  credentials: {file: [" + secret + "]}\n  models: [m]\n"), "file must be a text, found a list"},
		"credentials":     {spec("  credentials: {}\n  models: [m]\n"), "credentials is empty; give the path of a file"},
		"a Secret":        {spec("  credentials: {name: s, key: k}\n  models: [m]\n"), "a Secret can't be read here; mount it"},
		"half a Secret":   {spec("  credentials: {name: s}\n  models: [m]\n"), "give name and key"},
		"two credentials": {spec("  credentials: {name: s, key: k, file: f}\n  models: [m]\n"), "has both a file and a Secret"},
		"header":          {spec("  header: " + secret + "\n  models: [m]\n"), "header must be a mapping of keys to values, found another text"},
		"aliases": {
			spec("  labels: &l {a: b}\n  models:\n  - &m {name: m, labels: {"+strings.Repeat("a: b, ", 1)+"}}\n") + strings.Repeat("  - [*m, *m]\n", 3), "must be a mapping",
		},
		"many": {spec("  models:\n" + strings.Repeat("  - {nam: m}\n", 100)), `has no key "nam"`},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := file.Parse("p.yaml", []byte(c.text), file.Options{})
			require.Nil(t, list)
			require.ErrorContains(t, err, c.want)
			var where *file.Error
			require.ErrorAs(t, err, &where)
			require.NotContains(t, err.Error(), secret[:10])
			require.Less(t, len(err.Error()), 10_000)
		})
	}
}

// Programs may have kinds, secrets and changes of their own.
func TestOptions(t *testing.T) {
	kind := providers.AzureOpenAI{Entra: true}
	o := file.Options{
		Kinds: map[string]file.Factory{"Bedrock": func(options map[string]string) (providers.Kind, error) {
			if options["region"] == "" {
				return nil, errors.New("there is no region; add it")
			}
			return kind, nil
		}, "Nothing": func(map[string]string) (providers.Kind, error) {
			return nil, nil //nolint:nilnil // what a program shouldn't do
		}, "Nobody": nil, "Panics": func(map[string]string) (providers.Kind, error) {
			panic("s3cret")
		}, "openai": func(map[string]string) (providers.Kind, error) {
			return nil, errors.New("ours, not the builtin one")
		}},
		Secret: func(name, key string) (providers.CredentialSource, error) {
			if name == "none" {
				return nil, errors.New("it is not mounted")
			}
			return providers.File("/secrets/" + name + "/" + key), nil
		},
		Adjust: func(p *providers.Provider) { p.MaxConcurrent = 7 },
	}
	list, err := file.Parse("p.yaml", []byte(spec("  kind: bedrock\n  options: {region: eu}\n  credentials: {name: s, key: k}\n  models: [m]\n")), o)
	require.NoError(t, err)
	require.Equal(t, []any{kind, providers.File("/secrets/s/k"), 7}, []any{list[0].Kind, list[0].Credentials, list[0].MaxConcurrent})
	for text, want := range map[string]string{
		"  kind: Bedrock\n  models: [m]\n":                     "p.yaml:5:9: provider \"a\": options: there is no region; add it",
		"  kind: Nothing\n  models: [m]\n":                     "the program makes nothing of the kind",
		"  kind: Nobody\n  models: [m]\n":                      "the program makes nothing of the kind",
		"  kind: Panics\n  models: [m]\n":                      "p.yaml:5:9: provider \"a\": options: the program's factory of the kind panicked",
		"  kind: OpenAI\n  models: [m]\n":                      "options: ours, not the builtin one",
		"  credentials: {name: none, key: k}\n  models: [m]\n": "the Secret can't be used: it is not mounted",
	} {
		_, err = file.Parse("p.yaml", []byte(spec(text)), o)
		require.ErrorContains(t, err, want)
	}
	list, err = file.Parse("dir/p.yaml", []byte(spec("  credentials: {file: /abs/key}\n  models: [m]\n")), file.Options{})
	require.NoError(t, err)
	require.Equal(t, providers.File(filepath.FromSlash("/abs/key")), list[0].Credentials)
}

// Whatever a file says, it is providers or an error with a place.
func FuzzParse(f *testing.F) {
	every, err := os.ReadFile(everyKey)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(every), manifest("a", "m"), "- a", "kind: List\nitems: &a [*a]", "? {a: b}\n: c", "\x00", "%YAML 1.1\n---\n[]",
		spec("  models: [&a {name: m, prior: {}, prices: {}}, *a]\n  options: {a: 1}"), spec("  <<: {url: x}\n  models: [~]"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := file.Parse("p", data, file.Options{})
		if err != nil && list != nil {
			t.Fatal("both")
		}
		var where *file.Error
		if err != nil && !errors.As(err, &where) {
			t.Fatalf("no place: %v", err)
		}
		for i := range list {
			if list[i].Kind == nil || list[i].Name == "" {
				t.Fatal(list[i])
			}
		}
	})
}
