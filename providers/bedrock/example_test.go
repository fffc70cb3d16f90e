package bedrock_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/bedrock"
	"github.com/kvsteer/kvsteer/providers/bedrock/bedrocktest"
)

// The provider's URL and keys are those of AWS; requests are signed for the region.
func ExampleNew() {
	p := providers.Provider{
		Name: "bedrock",
		// Of config.LoadDefaultConfig of the AWS SDK: Credentials: cfg.Credentials.
		Kind: bedrock.New(bedrock.Options{
			Region:      "eu-central-1",
			Credentials: bedrock.StaticKeys("AKIDEXAMPLE", "secret", ""),
		}),
		Models: []providers.Model{{Name: "claude", Upstream: "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"}},
		Labels: map[string]string{"region": "eu"},
	}
	set, err := providers.New([]providers.Provider{p}, providers.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	for _, o := range set.Offers("claude") {
		fmt.Println(o.Provider(), o.Upstream(), o.URL())
	}
	// Output: bedrock eu.anthropic.claude-sonnet-4-5-20250929-v1:0 https://bedrock-runtime.eu-central-1.amazonaws.com
}

// With an API key of Bedrock nothing is signed.
func ExampleNew_apiKey() {
	p := providers.Provider{
		Name:        "bedrock",
		Kind:        bedrock.New(bedrock.Options{Region: "us-east-1"}),
		Credentials: providers.File("/run/secrets/bedrock"),
		Models:      []providers.Model{{Name: "nova", Upstream: "amazon.nova-pro-v1:0"}},
	}
	fmt.Println(p.Kind.Check(&p), p.URL)
	// Output: <nil> https://bedrock-runtime.us-east-1.amazonaws.com
}

// A manifest's options are the region, and the family of models whose ids don't say it.
func ExampleFactory() {
	factory := bedrock.Factory(bedrock.Options{Credentials: bedrock.StaticKeys("AKIDEXAMPLE", "secret", "")})
	kind, err := factory(map[string]string{"region": "eu-west-1"})
	fmt.Println(kind, err)
	_, err = factory(map[string]string{"regoin": "eu-west-1"})
	fmt.Println(err)
	// Output:
	// Bedrock <nil>
	// there is no option "regoin": Bedrock has region and family
}

// A fake of Bedrock serves a client of OpenAI's chat completions.
func TestWithTheFake(t *testing.T) {
	fake := bedrocktest.New(t, bedrocktest.Options{APIKey: "key"}, bedrocktest.Answer{Text: "Hello there."})
	set, err := providers.New([]providers.Provider{{
		Name: "bedrock", URL: fake.URL(), Kind: bedrock.New(bedrock.Options{}), Credentials: providers.Static("key"),
		Models: []providers.Model{{Name: "claude", Upstream: "anthropic.claude-3-haiku-20240307-v1:0"}},
	}}, providers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: set.Offers("claude")[0].RoundTripper(transport, providers.Exchange{API: prompt.Chat})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway.example/v1/chat/completions",
		strings.NewReader(`{"model":"claude","messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), "Hello there.") {
		t.Fatalf("%v: %s", err, body)
	}
	if got := string(fake.Last().Body); got != `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}` {
		t.Fatal(got)
	}
}
