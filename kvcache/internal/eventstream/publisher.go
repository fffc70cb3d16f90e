package eventstream

import "fmt"

// PublisherConfig says how an engine's publishing end behaves. Packages zmtp and
// kvcache/zmq share it, so that a test can change one for the other.
type PublisherConfig struct {
	// Events is the address to publish on: tcp://host:port or ipc://path. The
	// host may be "*", the port 0 (any free one). "" means tcp://127.0.0.1:0.
	Events string
	// Replay is the address to answer replays on; "" means none is offered.
	Replay string
	// ReplayTopic puts the topic into replies, as vLLM does from 0.26 on. false
	// is the shape of SGLang and older vLLM.
	ReplayTopic bool
	// Mute leaves replay requests unanswered, as engines do with those that they
	// don't understand.
	Mute bool
	// History is how many messages are kept for replay; 0 means 10,000, the
	// engines' default of buffer_steps.
	History int
	// HWM is how many messages wait for one slow subscriber before further ones
	// are dropped for it; 0 means 100,000, the engines' default.
	HWM int
}

// DefaultHWM is the engines' default high-water mark, in messages.
const DefaultHWM = 100000

const anyPort = "tcp://127.0.0.1:0"

// Check fills in the defaults and returns the addresses to listen on; replay is
// the zero Address if none is offered.
func (c *PublisherConfig) Check() (events, replay Address, err error) {
	if c.Events == "" {
		c.Events = anyPort
	}
	if c.History <= 0 {
		c.History = DefaultHistory
	}
	if c.HWM <= 0 {
		c.HWM = DefaultHWM
	}
	if events, err = ParseListen(c.Events); err != nil {
		return Address{}, Address{}, err
	}
	if c.Replay == "" {
		return events, Address{}, nil
	}
	if replay, err = ParseListen(c.Replay); err != nil {
		return Address{}, Address{}, fmt.Errorf("replay: %w", err)
	}
	return events, replay, nil
}
