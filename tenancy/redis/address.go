package redis

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// ErrAddress: a text is no address of a Redis. It is for the operator, and doesn't repeat
// the text, which may hold a password.
var ErrAddress = errors.New("redis: it is neither host:port nor a URL that begins with redis://, rediss:// (over TLS) or unix://")

// ParseAddress reads host:port, or a URL of go-redis's ParseURL, such as
// redis://user:password@host:port/db, and returns options for a client that keeps deadlines,
// as [New] and [NewExchange] want it. What is special in a password is percent-encoded in a
// URL. The error is [ErrAddress].
func ParseAddress(address string) (*goredis.Options, error) {
	if !strings.Contains(address, "://") {
		address = "redis://" + address
	}
	o, err := goredis.ParseURL(address)
	if err != nil {
		return nil, ErrAddress
	}
	o.ContextTimeoutEnabled = true // or deadlines aren't kept
	return o, nil
}
