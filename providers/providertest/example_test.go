package providertest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/providers/providertest"
)

func ExampleStart() {
	service, err := providertest.Start(providertest.OpenAI, providertest.Options{Key: "secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = service.Close() }()
	service.Script(
		providertest.Answer{Text: "Good morning."},
		providertest.Answer{Fault: providertest.ContextTooLong},
	)
	for range 2 {
		r, err := http.NewRequest(http.MethodPost, service.BaseURL()+"/chat/completions",
			strings.NewReader(`{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("Authorization", "Bearer secret")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode, strings.Contains(string(body), "Good morning."), strings.Contains(string(body), "context_length_exceeded"))
	}
	fmt.Println(len(service.Requests()), service.Last().Model)
	// Output:
	// 200 true false
	// 400 false true
	// 2 gpt-4o
}
