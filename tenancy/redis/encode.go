package redis

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// Requests to scripts are JSON: numbers that are whole and less than 2^53 arrive as they
// are.

// longest is how much of a bucket's key is in Redis; of longer ones a digest is.
const longest = 200

func bucketKey(prefix, key string) string {
	if len(key) > longest {
		sum := sha256.Sum256([]byte(key))
		key = "#" + hex.EncodeToString(sum[:])
	}
	return prefix + "q:" + key
}

// keysOf are the KEYS of a script about a reservation.
func (l *Limiter) keysOf(s *session, id string, buckets []string) []string {
	keys := make([]string, 0, 3+len(buckets))
	keys = append(keys, l.live, l.prefix+"s:"+s.id, l.prefix+"x:"+s.id+":"+id)
	for _, b := range buckets {
		keys = append(keys, bucketKey(l.prefix, b))
	}
	return keys
}

// begin begins a request.
func (l *Limiter) begin(s *session, id string) []byte {
	b := make([]byte, 0, 512)
	b = append(b, `{"sid":"`...)
	b = append(b, s.id...)
	b = append(b, `","id":"`...)
	b = append(b, id...)
	b = append(b, `","lease":`...)
	b = strconv.AppendInt(b, l.opts.Lease.Microseconds(), 10)
	if l.opts.now != nil {
		b = append(b, `,"now":`...)
		b = strconv.AppendInt(b, l.opts.now(), 10)
	}
	return b
}

func (l *Limiter) admitRequest(h *hold, now int64) []byte {
	b := l.begin(h.session, h.id)
	if !h.session.begun.Load() {
		b = append(b, `,"fresh":true`...)
	}
	b = append(b, `,"b":[`...)
	for i, bucket := range h.buckets {
		takes := bucket.Reserves(h.takes)
		b = l.appendBucket(b, i, bucket, now, func(b []byte, m quota.Meter, per int64) []byte {
			n := takes.Rates[m]
			b = appendSpan(b, bucket, m, n, per)
			b = append(b, ',')
			r, _, _, _ := bucket.Rate(m)
			b = appendSpan(b, bucket, m, r.Burst, per)
			b = append(b, ',')
			return strconv.AppendInt(b, n, 10)
		}, takes, takes)
	}
	return append(b, ']', '}')
}

func (l *Limiter) finishRequest(h *hold, now int64) []byte {
	b := l.begin(h.session, h.id)
	if h.cancel {
		b = append(b, `,"cancel":true`...)
	}
	b = append(b, `,"b":[`...)
	for i, bucket := range h.buckets {
		takes := bucket.Reserves(h.takes)
		b = l.appendBucket(b, i, bucket, now, func(b []byte, m quota.Meter, per int64) []byte {
			more, sign := h.used.Rates[m]-takes.Rates[m], int64(1)
			if more < 0 {
				more, sign = -more, -1
			} else if more == 0 {
				sign = 0
			}
			b = appendSpan(b, bucket, m, more, per)
			b = append(b, ',')
			return strconv.AppendInt(b, sign, 10)
		}, h.used, takes)
	}
	return append(b, ']', '}')
}

// appendBucket appends what a script must know of a bucket; rate appends what it must of
// one of its rates, after the meter, the pace's num and per. d is for the budget, res what
// was reserved of it.
func (l *Limiter) appendBucket(
	b []byte, i int, bucket quota.Bucket, now int64, rate func(b []byte, m quota.Meter, per int64) []byte, d, res quota.Amounts,
) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = append(b, `{"r":[`...)
	first := true
	for m := range quota.Meter(quota.NumRates) {
		_, num, den, ok := bucket.Rate(m)
		if !ok {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		per := int64(den) * micro
		b = appendInts(append(b, '['), int64(m), int64(num), per)
		b = append(b, ',')
		b = append(rate(b, m, per), ']')
	}
	of, budget := bucket.Budget()
	limit := bucket.Rule().Concurrency
	b = append(b, `],"c":`...)
	b = strconv.AppendInt(b, int64(limit), 10)
	b = append(b, `,"t":`...)
	b = strconv.AppendBool(b, limit > 0 || budget)
	b = append(b, `,"k":`...)
	b = strconv.AppendInt(b, l.keep, 10)
	if budget {
		b = append(b, `,"g":{"m":`...)
		b = strconv.AppendInt(b, of.Money, 10)
		for _, f := range []struct {
			name string
			n    int64
		}{
			{"t", of.Tokens},
			{"s", int64(of.SoftAt)},
			{"w", (of.Window + of.Window/steps).Microseconds()},
			{"dm", d.Money},
			{"dt", d.Tokens},
			{"rm", res.Money},
			{"rt", res.Tokens},
		} {
			b = append(b, `,"`...)
			b = append(b, f.name...)
			b = append(b, `":`...)
			b = strconv.AppendInt(b, f.n, 10)
		}
		b = append(b, `,"h":`...)
		b = strconv.AppendBool(b, !of.Soft)
		b = append(b, `,"p":[`...)
		oldest, start, next := bucket.Step(fromMicros(now))
		nextOldest, _, after := bucket.Step(next)
		b = appendInts(b, micros(oldest), micros(start), micros(nextOldest), micros(next), micros(after))
		b = append(b, ']', '}')
	}
	return append(b, '}')
}

// steps is more than how many a window has.
const steps = 30

func appendInts(b []byte, n ...int64) []byte {
	for i, n := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return b
}

// appendSpan appends how long n units take to refill: whole microseconds, and parts of
// which there are per to one.
func appendSpan(b []byte, bucket quota.Bucket, m quota.Meter, n, per int64) []byte {
	ns, frac := bucket.Span(m, n)
	den := per / micro
	return appendInts(b, ns/micro, ns%micro*den+int64(frac))
}
