package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

func ExampleNew() {
	srv := httptest.NewServer(newEngine("qwen3")) // stands for an inference server
	defer srv.Close()
	f, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(fleet.Worker{Name: "gpu-0", URL: srv.URL, Class: "h100"}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	if err := f.WaitReady(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range f.Snapshot().ForModel("qwen3") {
		fmt.Println(m.Name(), m.Engine(), m.MaxModelLen("qwen3"))
	}
	// Output: gpu-0 vllm 4096
}

// What keeps a fleet from being ready is in the error.
func ExampleFleet_WaitReady() {
	f, err := fleet.New(fleet.Options{Discoverer: fleet.Static()}) // an inventory that lists nobody
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err = f.WaitReady(ctx)
	fmt.Println(errors.Is(err, fleet.ErrNotReady))
	fmt.Println(err)
	// Output:
	// true
	// fleet: no healthy worker: context deadline exceeded; no workers are known
}

func ExampleMember_TryBegin() {
	srv := httptest.NewServer(newEngine("qwen3"))
	defer srv.Close()
	f, err := fleet.New(fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "gpu-0", URL: srv.URL})})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	if err := f.WaitReady(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	m := f.Snapshot().ForModel("qwen3")[0]
	look := m.InFlight(0)
	booking, ok := m.TryBegin(0, look.Picks, fleet.Work{PrefillTokens: 512, PromptTokens: 2048})
	fmt.Println(ok, m.InFlight(0).PrefillTokens)
	_, ok = m.TryBegin(0, look.Picks, fleet.Work{})
	fmt.Println(ok) // somebody picked since the look
	booking.FirstToken()
	booking.End()
	fmt.Println(f.InFlight())
	// Output:
	// true 512
	// false
	// 0
}

func ExampleFleet_Watch() {
	f, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(fleet.Worker{Name: "gpu-0", URL: "http://127.0.0.1:1"}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	added := make(chan string, 1)
	stop := f.Watch(func(c fleet.Change) {
		if c.Kind == fleet.Added {
			added <- c.Member.Name()
		}
	})
	defer stop()
	fmt.Println(<-added)
	// Output: gpu-0
}

func ExampleStatic() {
	_, err := fleet.New(fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "gpu-0", URL: "gpu-0.example"})})
	fmt.Println(err)
	// Output: fleet: worker "gpu-0": url: scheme "" is not http or https; write for example http://10.0.0.7:8000
}

func ExampleValidate() {
	err := fleet.Validate([]fleet.Worker{{Name: "a", URL: "http://h:1"}, {Name: "a", URL: "http://h:2"}})
	fmt.Println(err)
	// Output: fleet: worker "a": name: also the name of worker number 1; give each worker a name of its own
}
