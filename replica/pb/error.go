package pb

import (
	"errors"
	"strconv"

	"github.com/kvsteer/kvsteer/replica"
)

// What is wrong with a message. The errors of [Unmarshal] wrap one of them each, those of
// [Marshal] wrap ErrBounds.
var (
	// ErrVersion is [replica.ErrVersion]: the message is of another version. That is no fault of
	// its sender's: count it, and let people know that not all replicas understand one
	// another. The error is a [*VersionError].
	ErrVersion = replica.ErrVersion
	// ErrMalformed: this is no message, or one that contradicts itself.
	ErrMalformed = errors.New("replica/pb: malformed message")
	// ErrBounds is [replica.ErrBounds]: there is more in the message than is allowed, a
	// number is out of its range, or the epoch or the sequence number is missing.
	ErrBounds = replica.ErrBounds
)

// VersionError is an [ErrVersion] that says which version the message has.
type VersionError struct{ Version uint64 }

// Error implements error.
func (e *VersionError) Error() string {
	return ErrVersion.Error() + ": " + strconv.FormatUint(e.Version, 10) + ", this is " + strconv.Itoa(replica.Version)
}

// Unwrap returns ErrVersion.
func (e *VersionError) Unwrap() error { return ErrVersion }
