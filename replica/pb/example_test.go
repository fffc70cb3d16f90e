package pb_test

import (
	"errors"
	"fmt"

	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/pb"
)

func Example() {
	data, err := pb.Marshal(&replica.Message{
		Version: replica.Version, Router: "gateway-7", Epoch: 0x5eed, Seq: 1, Full: true,
		Loads: []replica.Load{{Instance: "worker@1", PrefillRequests: 1, PrefillTokens: 12_000}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := pb.Unmarshal(data)
	switch {
	case errors.Is(err, pb.ErrVersion):
		fmt.Println("a replica that is newer, or older")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(len(data), "bytes:", m.Router, m.Loads[0].Instance, m.Loads[0].PrefillTokens)
	}
	// Output: 43 bytes: gateway-7 worker@1 12000
}
