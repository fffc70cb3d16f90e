package replica_test

import (
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/replica"
)

// What peers say, in the order in which a network brings it.
func ExampleTable() {
	now := time.Now()
	table := replica.NewTable(replica.TableOptions{Epoch: 1})
	has := func(seq uint64, requests int) *replica.Message {
		return &replica.Message{
			Version: replica.Version, Router: "gateway-7", Epoch: 2, Seq: seq, Full: true,
			Loads: []replica.Load{{Instance: "worker@1", DecodeRequests: requests}},
		}
	}
	for _, m := range []*replica.Message{has(1, 4), has(3, 7), has(2, 5)} { // the last one is late
		if _, err := table.Take(m, now); err != nil {
			fmt.Println(err)
		}
	}
	worker := replica.Place{Instance: "worker@1"}
	fmt.Println(table.Share(worker).DecodeRequests, "requests")

	table.Expire(now.Add(5 * time.Second)) // it is not heard of any more
	fmt.Println(table.Share(worker).DecodeRequests, "requests")
	// Output:
	// replica: the message is out of date
	// 7 requests
	// 0 requests
}
