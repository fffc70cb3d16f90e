package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRead: whatever is read, there is no panic, what comes is valid, and what was
// decided can be written and read again. It writes without the Recorder's goroutine,
// whose turns would look like new coverage each time.
func FuzzRead(f *testing.F) {
	seeds, err := filepath.Glob("testdata/seeds/*")
	require.NoError(f, err)
	require.NotEmpty(f, seeds)
	for _, name := range seeds {
		log, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(log)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		var o Options
		require.NoError(t, o.fill())
		var again bytes.Buffer
		w := newWriter(&plain{w: &again}, &o)
		var want, got []*Entry
		err := Read(bytes.NewReader(log), func(e *Entry) error {
			set := 0
			for _, is := range []bool{e.Header != nil, e.Decision != nil, e.Outcome != nil, e.Lost != nil, e.Damage != ""} {
				if is {
					set++
				}
			}
			if set != 1 || e.Line < 1 {
				t.Fatalf("not one thing: %+v", e)
			}
			d := e.Decision
			if d == nil {
				return nil
			}
			_ = d.String()
			if d.Chosen < -1 || d.Chosen >= len(d.Candidates) || d.Features != nil && len(d.Features) != len(d.Candidates) {
				t.Fatalf("not valid: %+v", d)
			}
			w.add(&item{at: e.At, decision: d, rejected: e.Rejected})
			want = append(want, e)
			return nil
		})
		if err != nil && !errors.Is(err, ErrNotLog) && !errors.Is(err, ErrVersion) {
			t.Fatal(err)
		}
		if !w.write() || w.status().Failed > 0 {
			t.Fatalf("can't be written: %v", w.status())
		}
		require.NoError(t, Read(&again, func(e *Entry) error {
			if e.Header == nil {
				got = append(got, e)
			}
			return nil
		}))
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, want[i].Decision.String(), got[i].Decision.String())
			require.Equal(t, want[i].Decision.Features, got[i].Decision.Features)
			require.Equal(t, want[i].Decision.Request, got[i].Decision.Request)
			require.Equal(t, want[i].Rejected, got[i].Rejected)
		}
	})
}
