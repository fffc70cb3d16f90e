package follow_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// A follower of an engine that lives in the same process. With package zmtp as
// the Transport and "tcp://..." addresses it follows a real one.
func ExampleStart() {
	hub := follow.NewHub()
	engine, err := hub.Open("engine", follow.PipeOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	index := kvcache.NewIndex(kvcache.Options{})
	owner := index.Join("worker-1")

	exact := make(chan follow.Change, 1)
	f, err := follow.Start(context.Background(), follow.Config{
		Transport: hub,
		Endpoint:  engine.Endpoint(0),
		Index:     index,
		Owner:     func(rank int) (kvcache.Owner, bool) { return owner, rank == 0 },
		OnTrust: func(c follow.Change) {
			select {
			case exact <- c:
			default:
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = f.Close() }()

	select {
	case c := <-exact:
		fmt.Println(c.From, "->", c.To)
	case <-time.After(time.Minute):
	}
	// Output: blind -> exact
}

// A Hub stands in for the network between engines and routers.
func ExampleNewHub() {
	hub := follow.NewHub()
	engine, err := hub.Open("engine", follow.PipeOptions{ReplayBatches: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine.Publish([]byte("published before anybody listened"))

	conn, err := hub.Dial(context.Background(), follow.Endpoint{Events: "inproc://engine", Replay: "inproc://engine"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	err = conn.Replay(context.Background(), 0, func(m follow.Message) error {
		fmt.Println(m.Seq, string(m.Payload))
		return nil
	})
	fmt.Println(err)
	// Output:
	// 0 published before anybody listened
	// <nil>
}
