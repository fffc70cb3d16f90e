package record

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// Options are the settings of a [Recorder]. The zero value works.
type Options struct {
	// Buffer bounds the entries that wait to be written. A decision over 64 candidates
	// holds some 30 KB while it does. 0 means 1,024.
	Buffer int
	// Sample records one of so many requests, at random, and sessions as a whole:
	// conversations stay complete. 0 and 1 mean all.
	Sample int
	// HashTenants and HashLabels write, instead of tenants' names and of the values of
	// workers' labels, what stands for them: equal for equal ones, so that counting by
	// tenant works, and policies that name them don't hold when they are replayed. Of
	// dropped candidates the log then has the rule only, not its condition.
	HashTenants, HashLabels bool
	// HashKey keeps names from being guessed. Nil means one that is drawn at random and
	// forgotten with the Recorder: then the same tenant has another hash in each run.
	HashKey []byte
	// Headers names headers of requests whose values are recorded, for policies that ask
	// about them. Nothing else of headers is.
	Headers []string
	// MaxBytes is the size from which on [Open] begins another file. The one before gets
	// ".1" added to its name, and so on. 0 means no bound: use [Recorder.Reopen].
	MaxBytes int64
	// Keep is how many older files are kept then. 0 means 4.
	Keep int
	// CloseTimeout bounds what Close waits for. 0 means 5 s.
	CloseTimeout time.Duration
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Logger is told when writing begins to fail and when it works again. Nil means
	// nobody; [Recorder.Status] tells as well.
	Logger *slog.Logger
}

const (
	defaultBuffer       = 1024
	defaultKeep         = 4
	defaultCloseTimeout = 5 * time.Second
	// leastBytes is what a bound on a file's size must leave room for.
	leastBytes = 64 << 10
)

func (o *Options) fill() error {
	switch {
	case o.Buffer < 0, o.Sample < 0, o.Keep < 0, o.CloseTimeout < 0:
		return fmt.Errorf("record: Options has a negative number: Buffer %d, Sample %d, Keep %d, CloseTimeout %s",
			o.Buffer, o.Sample, o.Keep, o.CloseTimeout)
	case o.MaxBytes != 0 && o.MaxBytes < leastBytes:
		return fmt.Errorf("record: Options.MaxBytes is %d: give at least %d, or 0 for no bound", o.MaxBytes, leastBytes)
	}
	o.Headers = canonical(o.Headers)
	if o.Buffer == 0 {
		o.Buffer = defaultBuffer
	}
	if o.Keep == 0 {
		o.Keep = defaultKeep
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// canonical returns the names as they are in requests, each once.
func canonical(names []string) []string {
	var out []string
	for _, name := range names {
		if name = http.CanonicalHeaderKey(name); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
