package providers_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// A request in OpenAI's API, answered by a provider that has a name of its own for the
// model. A gateway leaves all of this to kvsteer.Transport.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println("the provider gets", r.URL.Path, r.Header.Get("Authorization"), string(body))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Ratelimit-Limit-Requests", "100")
		w.Header().Set("X-Ratelimit-Remaining-Requests", "99")
		_, _ = io.WriteString(w, `{"model":"meta/llama-3.3-70b-0401","choices":[]}`)
	}))
	defer service.Close()

	set, err := providers.New([]providers.Provider{{
		Name: "elsewhere", Kind: providers.OpenAI{}, URL: service.URL, Credentials: providers.Static("sk-1"),
		Labels: map[string]string{"region": "eu"},
		Models: []providers.Model{{
			Name: "llama", Upstream: "meta/llama-3.3-70b", ContextWindow: 131_072,
			Prices: &price.Prices{Input: 880_000, Output: 880_000},
		}},
	}}, providers.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()

	offer := set.Offers("llama")[0]
	booking := offer.Begin(12, 100)
	defer booking.End()
	request, _ := http.NewRequest(http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader(`{"model":"llama","messages":[]}`))
	request.Header.Set("Authorization", "Bearer of-the-client")
	answer, err := offer.RoundTripper(nil, providers.Exchange{API: prompt.Chat, Booking: booking}).RoundTrip(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	cost, _ := offer.Cost(&price.Tokens{Uncached: 12, Output: 100})
	fmt.Println("the client gets", string(body))
	fmt.Println("for", cost, "millionths, with", offer.Standing(time.Now()).Remaining, "of the quota left")
	// Output:
	// the provider gets /v1/chat/completions Bearer sk-1 {"model":"meta/llama-3.3-70b","messages":[]}
	// the client gets {"model":"llama","choices":[]}
	// for 99 millionths, with 0.99 of the quota left
}

// What is wrong is said all at once, with what to do.
func ExampleNew() {
	_, err := providers.New([]providers.Provider{
		{Name: "azure", Kind: providers.AzureOpenAI{}, Models: []providers.Model{{Name: "gpt-5"}}},
		{Name: "azure", Kind: providers.OpenAI{}, URL: "https://user:secret@example.com"},
	}, providers.Options{})
	fmt.Println(err)
	// Output:
	// providers: provider "azure": URL is missing: the kind has none of its own
	// providers: provider "azure": Name is given twice; rename one
	// providers: provider "azure": Models is empty, and so is Paths: nothing is served
	// providers: provider "azure": URL has a user's name or password; put the secret into Credentials
}

// Whatever prints a credential, or something that holds one, prints no secret.
func ExampleCredential() {
	c := providers.NewCredential("sk-1")
	fmt.Println(c, len(c.Reveal()))
	// Output: (secret) 4
}
