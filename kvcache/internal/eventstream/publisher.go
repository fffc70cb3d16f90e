package eventstream

import "fmt"

// Defaults of publishers, the engines' own.
const (
	// DefaultHWM is the high-water mark, in messages.
	DefaultHWM = 100000
	// DefaultEvents is an address for tests: any free port.
	DefaultEvents = "tcp://127.0.0.1:0"
)

// ParsePublisher checks the addresses of a publisher. events may be "" for
// DefaultEvents; replay may be "", which gives the zero Address.
func ParsePublisher(eventsText, replayText string) (events, replay Address, err error) {
	if eventsText == "" {
		eventsText = DefaultEvents
	}
	if events, err = ParseListen(eventsText); err != nil {
		return Address{}, Address{}, err
	}
	if replayText == "" {
		return events, Address{}, nil
	}
	if replay, err = ParseListen(replayText); err != nil {
		return Address{}, Address{}, fmt.Errorf("replay: %w", err)
	}
	return events, replay, nil
}
