package dns_test

import (
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/dns"
)

// The pods behind a headless Service, without any access to Kubernetes' API.
func ExampleDiscoverer() {
	d := &dns.Discoverer{
		Name: "vllm.default.svc.cluster.local.", Port: 8000,
		Servers: []string{"127.0.0.1:5353"}, // left out: those of /etc/resolv.conf
		Hold:    time.Minute,                // the server gives a part of the records each time
	}
	fmt.Println(d.Validate()) // fleet.New asks the same

	workers, err := fleet.New(fleet.Options{Discoverer: d})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close()

	fmt.Println((&dns.Discoverer{Name: "_llm._tcp.example.com.", SRV: true, Port: 8000}).Validate())
	// Output:
	// <nil>
	// dns: Discoverer.Port is 8000, but SRV records have ports of their own; leave out one of Port and SRV
}
