package httpjson_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/httpjson"
)

func ExampleDiscoverer() {
	workers, err := fleet.New(fleet.Options{Discoverer: &httpjson.Discoverer{
		URL: "https://inventory.invalid:8443/llm/workers",
		Prepare: func(r *http.Request, _ http.Header) error {
			r.Header.Set("Authorization", "Bearer "+token())
			return nil
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(workers.Close())
	// Output: <nil>
}

// token stands for whatever renews the token.
func token() string { return "" }

// Another form of answer needs a Decode. Where the server has blocking queries, as
// Consul's catalogue has, Prepare asks for what is newer than the last answer.
func ExampleDiscoverer_blocking() {
	d := &httpjson.Discoverer{
		URL:      "http://consul:8500/v1/health/service/vllm",
		Interval: 100 * time.Millisecond, // the server does the waiting
		Timeout:  time.Minute,
		Prepare: func(r *http.Request, last http.Header) error {
			q := r.URL.Query()
			q.Set("passing", "1")
			q.Set("wait", "30s")
			if index := last.Get("X-Consul-Index"); index != "" {
				q.Set("index", index)
			}
			r.URL.RawQuery = q.Encode()
			return nil
		},
		Decode: func(body []byte) ([]fleet.Worker, error) {
			var entries []struct {
				Node    struct{ Node, Address string }
				Service struct {
					ID, Address string
					Port        int
				}
			}
			if err := json.Unmarshal(body, &entries); err != nil {
				return nil, err
			}
			var workers []fleet.Worker
			for _, e := range entries {
				host := cmp.Or(e.Service.Address, e.Node.Address)
				workers = append(workers, fleet.Worker{
					Name: e.Node.Node + "/" + e.Service.ID, // the ID is unique on its node alone
					URL:  "http://" + net.JoinHostPort(host, strconv.Itoa(e.Service.Port)),
				})
			}
			return workers, nil
		},
	}
	fmt.Println(d.Validate())
	// Output: <nil>
}

func ExampleDecode() {
	_, err := httpjson.Decode([]byte(`[{"name": "gpu-0", "url": "http://10.0.0.7:8000", "blockSize": "16"}]`))
	fmt.Println(err)
	// Output: workers[0]: fleet: worker "gpu-0": blockSize: expected a whole number, found string
}
