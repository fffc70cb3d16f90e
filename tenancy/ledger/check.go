package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a Record.
const (
	// MaxID is the longest ID in bytes. A longer one is an error: cut off, two could be
	// the same.
	MaxID = 256
	// MaxName is the longest of the other names in bytes. Longer ones are cut off.
	MaxName = 512
	// MaxAmount is the largest of tokens or millionths of the currency: more is a mistake.
	MaxAmount = 1 << 53
	// MaxAttempt is the largest Attempt.
	MaxAttempt = 1<<31 - 1
)

// ErrInvalid is wrapped by the error for a record that no ledger can hold.
var ErrInvalid = errors.New("ledger: not a record")

// years that every sink can hold.
const firstYear, lastYear = 1970, 9999

// Check says what is wrong with a record; the error wraps [ErrInvalid].
func (r *Record) Check() error {
	if r == nil {
		return fmt.Errorf("%w: it is nil", ErrInvalid)
	}
	why := ""
	switch y := r.At.UTC().Year(); {
	case r.ID == "":
		why = "it has no ID"
	case len(r.ID) > MaxID:
		why = fmt.Sprintf("its ID has %d bytes, more than %d", len(r.ID), MaxID)
	case clean(r.ID) != r.ID:
		why = "its ID is not valid UTF-8, or has a NUL in it"
	case r.Attempt < 1 || int64(r.Attempt) > MaxAttempt:
		why = fmt.Sprintf("its Attempt is %d; attempts count from 1", r.Attempt)
	case r.State != Reserved && r.State != Settled && r.State != Voided:
		why = fmt.Sprintf("its State %.40q is none of reserved, settled and voided", r.State)
	case r.Source != "" && r.Source != Provider && r.Source != Stream && r.Source != Estimate:
		why = fmt.Sprintf("its Source %.40q is none of provider, stream and estimate", r.Source)
	case y < firstYear || y > lastYear:
		why = fmt.Sprintf("its At is in the year %d", y)
	}
	for _, a := range [...]struct {
		name string
		n    int64
	}{
		{"Uncached", r.Uncached},
		{"Cached", r.Cached},
		{"CacheWrite", r.CacheWrite},
		{"Output", r.Output},
		{"Reasoning", r.Reasoning},
		{"Cost", r.Cost},
	} {
		if why == "" && (a.n < 0 || a.n > MaxAmount) {
			why = fmt.Sprintf("its %s is %d, not from 0 to 2^53", a.name, a.n)
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrInvalid, why)
}

// Normalize makes a record what every sink can hold and gives back the same: At is in UTC
// and whole microseconds, names are valid UTF-8 without NUL and at most MaxName bytes long.
func (r *Record) Normalize() {
	r.At = r.At.UTC().Truncate(time.Microsecond)
	for _, s := range [...]*string{&r.Org, &r.Team, &r.Tenant, &r.Key, &r.Class, &r.Model, &r.Served, &r.Worker, &r.Provider} {
		*s = clean(*s)
		if len(*s) > MaxName {
			cut := MaxName
			for !utf8.RuneStart((*s)[cut]) {
				cut--
			}
			*s = strings.Clone((*s)[:cut])
		}
	}
}

// clean replaces what a text column can't hold.
func clean(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	if len(s) > utf8.UTFMax*MaxName { // it is going to be cut off, or refused
		s = s[:utf8.UTFMax*MaxName]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
