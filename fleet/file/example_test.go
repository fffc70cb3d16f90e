package file_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
)

// refusing is a client without a network.
func refusing() *http.Client {
	return &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("no network here")
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func ExampleDiscoverer() {
	names := make(chan string, 2)
	f, err := fleet.New(fleet.Options{
		Discoverer: &file.Discoverer{Path: "testdata/workers.yaml"},
		HTTPClient: refusing(),
		OnChange: func(c fleet.Change) {
			if c.Kind == fleet.Added {
				names <- c.Member.Name()
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-names, <-names)
	if err := f.Close(); err != nil {
		fmt.Println(err)
	}
	// Output: gpu-0 gpu-1
}

func ExampleLoad() {
	workers, err := file.Load("testdata/workers.yaml")
	fmt.Println(len(workers), err)
	// Output: 2 <nil>
}

func ExampleParse() {
	_, err := file.Parse([]byte("workers:\n  - name: gpu-0\n    ulr: http://10.0.0.7:8000\n"))
	fmt.Println(err)
	// Output: 3:5: a worker has no key "ulr"; did you mean "url"?
}
