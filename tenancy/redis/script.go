package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

//go:embed lua/common.lua
var commonLua string

//go:embed lua/admit.lua
var admitLua string

//go:embed lua/finish.lua
var finishLua string

//go:embed lua/renew.lua
var renewLua string

// scripts are sent by their digests, and whole where Redis doesn't know them.
type scripts struct{ admit, finish, renew *goredis.Script }

func newScripts() scripts {
	return scripts{
		admit:  goredis.NewScript(commonLua + admitLua),
		finish: goredis.NewScript(commonLua + finishLua),
		renew:  goredis.NewScript(commonLua + renewLua),
	}
}

// reply is what a script returns.
type reply struct {
	status string
	// now is Redis's time, in microseconds.
	now  int64
	rest []any
}

// The statuses of replies.
const (
	statusYes   = "yes"
	statusNo    = "no"
	statusLost  = "lost"  // the session has ended
	statusNone  = "none"  // there is no such reservation: it was ended before
	statusStale = "stale" // our idea of Redis's time is wrong; the reply has it
	statusBad   = "bad"   // a key holds something else
	statusGone  = "cancelled"
)

var errReply = errors.New("quota/redis: the script's reply is not what it should be; is another version of it loaded?")

// errClock is of one request: others may have no budget, or one of another period.
var errClock = errors.New("quota/redis: Redis's clock runs away")

func parse(v any) (reply, error) {
	list, ok := v.([]any)
	if !ok || len(list) < 2 {
		return reply{}, errReply
	}
	status, isText := list[0].(string)
	now, isNumber := list[1].(int64)
	if !isText || !isNumber {
		return reply{}, errReply
	}
	r := reply{status: status, now: now, rest: list[2:]}
	if status == statusBad {
		key := ""
		if len(r.rest) > 0 {
			key, _ = r.rest[0].(string)
		}
		return r, &StateError{Key: key}
	}
	return r, nil
}

// ask runs a script, and again where the request had the time wrong: encode is told it.
func (l *Limiter) ask(ctx context.Context, s *goredis.Script, keys []string, encode func(now int64) []byte) (reply, error) {
	const tries = 3
	for n := 1; ; n++ {
		v, err := s.Run(ctx, l.opts.Client, keys, encode(l.time.now())).Result()
		if err != nil {
			return reply{}, err
		}
		r, err := parse(v)
		if err != nil {
			return r, err
		}
		l.time.is(r.now)
		if r.status != statusStale {
			return r, nil
		}
		if n == tries {
			return r, fmt.Errorf("%w: it says %d µs", errClock, r.now)
		}
	}
}

// states reads those of buckets.
func states(rest []any, buckets []quota.Bucket) ([]quota.State, []bool, error) {
	if len(rest) != len(buckets) {
		return nil, nil, errReply
	}
	out, soft := make([]quota.State, len(buckets)), make([]bool, len(buckets))
	for i := range buckets {
		n, err := numbers(rest[i])
		if err != nil {
			return nil, nil, err
		}
		if out[i], soft[i], err = state(n, buckets[i]); err != nil {
			return nil, nil, err
		}
	}
	return out, soft, nil
}

func numbers(v any) ([]int64, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errReply
	}
	out := make([]int64, len(list))
	for i := range list {
		if out[i], ok = list[i].(int64); !ok {
			return nil, errReply
		}
	}
	return out, nil
}

// state reads that of one bucket: see state in common.lua.
func state(n []int64, b quota.Bucket) (s quota.State, soft bool, err error) {
	const head = 4
	if len(n) < head {
		return s, false, errReply
	}
	s.Running, s.Money, s.Tokens, soft = int(n[0]), n[1], n[2], n[3] == 1
	n = n[head:]
	for m := range quota.Meter(quota.NumRates) {
		_, _, den, ok := b.Rate(m)
		if !ok {
			continue
		}
		if len(n) < 2 {
			return s, false, errReply
		}
		s.Rates[m] = quota.Fill{Ns: n[0]*micro + n[1]/int64(den), Frac: uint32(n[1] % int64(den))}
		n = n[2:]
	}
	for ; len(n) >= 3; n = n[3:] {
		s.Steps = append(s.Steps, quota.Step{Start: fromMicros(n[0]), Money: n[1], Tokens: n[2]})
	}
	return s, soft, nil
}

// transient reports whether a reply that is an error says that Redis can't just now.
func transient(err error) bool {
	var state *StateError
	if errors.As(err, &state) || errors.Is(err, errReply) || errors.Is(err, errClock) {
		return false
	}
	var said goredis.Error
	if !errors.As(err, &said) {
		return true // it has said nothing
	}
	word, _, _ := strings.Cut(said.Error(), " ")
	switch word {
	case "LOADING", "READONLY", "BUSY", "OOM", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "MISCONF", "NOREPLICAS",
		"NOSCRIPT", "NOAUTH", "WRONGPASS", "NOPERM":
		return true
	default:
		return false
	}
}
