package zmtp_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// A publisher stands in for an engine, and a transport follows it.
func ExampleTransport_Dial() {
	engine, err := zmtp.NewPublisher(zmtp.PublisherConfig{Replay: "tcp://127.0.0.1:0", ReplayTopic: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	_, _ = engine.Publish("kv@pod@model", []byte("published before anybody listened"))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var transport zmtp.Transport
	conn, err := transport.Dial(ctx, engine.Endpoint())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	// What was missed is asked for.
	err = conn.Replay(ctx, 0, func(m follow.Message) error {
		fmt.Printf("%d %s: %s\n", m.Seq, m.Topic, m.Payload)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 0 kv@pod@model: published before anybody listened
	// <nil>
}

// An address that was copied from the engine's configuration can't be dialled,
// and the error says what to write.
func ExampleAddressError() {
	var transport zmtp.Transport
	_, err := transport.Dial(context.Background(), follow.Endpoint{Events: "tcp://*:5557"})
	var bad *zmtp.AddressError
	fmt.Println(errors.As(err, &bad))
	fmt.Println(bad.Reason)
	// Output:
	// true
	// that is where the engine listens, not where it is; use the worker's host name or IP address, for example tcp://10.0.0.7:5557
}

// NewPublisher with an explicit address and the reply shape of SGLang.
func ExampleNewPublisher() {
	p, err := zmtp.NewPublisher(zmtp.PublisherConfig{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	first, _ := p.Publish("kv-events", []byte("batch"))
	second, _ := p.Publish("kv-events", []byte("batch"))
	fmt.Println(first, second)
	// Output: 0 1
}
