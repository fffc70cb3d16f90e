package pb

import (
	"errors"

	"github.com/kvsteer/kvsteer/replica"
)

// What is wrong with a message. The errors of [Unmarshal] wrap one of them each, those of
// [Marshal] wrap ErrBounds.
var (
	// ErrVersion: the message is of another version. That is no fault of its sender's:
	// count it, and let people know that not all replicas understand one another.
	ErrVersion = errors.New("replica/pb: a message of another version")
	// ErrMalformed: this is no message, or one that contradicts itself.
	ErrMalformed = errors.New("replica/pb: malformed message")
	// ErrBounds is [replica.ErrBounds]: there is more in the message than is allowed, a
	// number is out of its range, or the epoch or the sequence number is missing.
	ErrBounds = replica.ErrBounds
)
