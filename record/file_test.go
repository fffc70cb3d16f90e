package record_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/record"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	log, err := os.ReadFile(path)
	require.NoError(t, err)
	return log
}

func TestOpenAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	for range 2 {
		r, err := record.Open(path, record.Options{CloseTimeout: patient})
		require.NoError(t, err)
		r.OnDecision(decided(1))
		require.NoError(t, r.Close())
	}
	all := entries(t, read(t, path))
	require.Equal(t, []int{2, 2}, []int{sum(all).headers, sum(all).decisions})
	require.NotEqual(t, all[0].Header.Run, all[2].Header.Run)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

// A run that crashed left half a line; what follows is not lost with it.
func TestOpenAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	r, err := record.Open(path, record.Options{CloseTimeout: patient})
	require.NoError(t, err)
	r.OnDecision(decided(1))
	r.OnDecision(decided(2))
	require.NoError(t, r.Close())
	whole := read(t, path)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-100], 0o600))
	r, err = record.Open(path, record.Options{CloseTimeout: patient})
	require.NoError(t, err)
	r.OnDecision(decided(3))
	require.NoError(t, r.Close())

	var got []string
	require.NoError(t, record.Read(strings.NewReader(string(read(t, path))), func(e *record.Entry) error {
		switch {
		case e.Header != nil:
			got = append(got, "header")
		case e.Damage != "":
			got = append(got, e.Damage)
		default:
			got = append(got, "decision")
		}
		return nil
	}))
	require.Equal(t, []string{"header", "decision", record.DamageJSON, "header", "decision"}, got)
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log.jsonl")
	const most, keep = 256 << 10, 3
	r, err := record.Open(path, record.Options{CloseTimeout: patient, MaxBytes: most, Keep: keep})
	require.NoError(t, err)
	const n = 600
	for id := range uint64(n) {
		r.OnDecision(decided(id))
		if id%10 == 0 {
			require.NoError(t, r.Flush(t.Context()))
		}
	}
	require.NoError(t, r.Close())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, keep+1)
	next, run := uint64(n), ""
	for _, name := range []string{path, path + ".1", path + ".2", path + ".3"} { // from the newest
		log := read(t, name)
		require.LessOrEqual(t, len(log), most)
		all := entries(t, log)
		require.NotNil(t, all[0].Header, "each file is a log")
		if name != path {
			require.Greater(t, len(log), most/2, "full when the next began")
		}
		if run != "" {
			require.Equal(t, run, all[0].Header.Run)
		}
		run = all[0].Header.Run
		for i := len(all) - 1; i > 0; i-- {
			next--
			require.Equal(t, next, all[i].Decision.ID)
		}
	}
	require.Positive(t, next, "the oldest are gone")
	require.Zero(t, r.Status().Errors)
}

// Where no other file can be begun the old one grows on.
func TestRotationThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log.jsonl")
	require.NoError(t, os.MkdirAll(filepath.Join(path+".1", "x"), 0o700)) // nothing is renamed over that
	r, err := record.Open(path, record.Options{CloseTimeout: patient, MaxBytes: 64 << 10, Keep: 1})
	require.NoError(t, err)
	const n = 100
	for id := range uint64(n) {
		r.OnDecision(decided(id))
		_ = r.Flush(t.Context())
	}
	require.NoError(t, r.Close())
	require.Equal(t, n, sum(entries(t, read(t, path))).decisions)
	s := r.Status()
	require.Positive(t, s.Errors)
	require.Zero(t, s.Failed)
}

func TestReopen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("what is open can't be renamed there")
	}
	path := filepath.Join(t.TempDir(), "log.jsonl")
	r, err := record.Open(path, record.Options{CloseTimeout: patient})
	require.NoError(t, err)
	r.OnDecision(decided(1))
	require.NoError(t, r.Flush(t.Context()))
	require.NoError(t, os.Rename(path, path+".old"))
	r.OnDecision(decided(2)) // goes where the file went
	require.NoError(t, r.Reopen(t.Context()))
	r.OnDecision(decided(3))
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Reopen(t.Context()), record.ErrClosed)
	require.Equal(t, 2, sum(entries(t, read(t, path+".old"))).decisions)
	require.Equal(t, sums{headers: 1, decisions: 1, lost: map[string]uint64{}}, sum(entries(t, read(t, path))))
}

func TestReopenThatFails(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("what is open can't be removed there")
	}
	dir := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "log.jsonl")
	r, err := record.Open(path, record.Options{CloseTimeout: patient})
	require.NoError(t, err)
	require.NoError(t, r.Flush(t.Context()))
	require.NoError(t, os.RemoveAll(dir))
	require.Error(t, r.Reopen(t.Context()))
	r.OnDecision(decided(1))
	require.Error(t, r.Flush(t.Context()))
	require.NoError(t, os.Mkdir(dir, 0o700))
	r.OnDecision(decided(2)) // as soon as it works, it works
	require.NoError(t, r.Flush(t.Context()))
	require.Error(t, r.Close(), "one is missing")
	require.Equal(t, sums{headers: 1, decisions: 1, lost: map[string]uint64{record.LostWrite: 1}}, sum(entries(t, read(t, path))))

	plain, err := record.New(newMedium(), record.Options{CloseTimeout: patient})
	require.NoError(t, err)
	require.ErrorContains(t, plain.Reopen(t.Context()), "not a file")
	require.Error(t, plain.Close())
}

// Two Recorders may take turns in a file: each line says whose it is.
func TestTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	var both [2]*record.Recorder
	for i := range both {
		var err error
		both[i], err = record.Open(path, record.Options{CloseTimeout: patient})
		require.NoError(t, err)
	}
	for id := range uint64(3) {
		for _, r := range both {
			d := decided(1 + id)
			r.OnDecision(d)
			r.OnOutcome(ended(d))
			require.NoError(t, r.Flush(t.Context()))
		}
	}
	for _, r := range both {
		require.NoError(t, r.Close())
	}
	all := entries(t, read(t, path))
	require.Equal(t, []int{2, 6, 6}, []int{sum(all).headers, sum(all).decisions, sum(all).outcomes})
	runs := []string{all[0].Header.Run, all[3].Header.Run}
	for i, e := range all[6:] {
		require.Equal(t, runs[i/2%2], e.Run, "line %d", e.Line)
	}
	require.Equal(t, runs[0], all[0].Run)
}

// In logs of before lines had a run they belong to the last header.
func TestLinesWithoutARun(t *testing.T) {
	const line = `{"outcome":{"decision":1}}` + "\n"
	log := header + line + strings.Replace(header, "0011", "ffff", 1) + line + strings.Replace(line, "{", `{"run":"other",`, 1)
	var runs []string
	require.NoError(t, record.Read(strings.NewReader(log), func(e *record.Entry) error {
		runs = append(runs, e.Run)
		return nil
	}))
	require.Equal(t, []string{"0011223344556677", "0011223344556677", "ffff223344556677", "ffff223344556677", "other"}, runs)
}

// A file that can't be opened is an error at once; one of which nothing came to be
// written has no header.
func TestHeaderComesWithTheFirstEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	r, err := record.Open(path, record.Options{CloseTimeout: patient})
	require.NoError(t, err)
	require.NoError(t, r.Flush(t.Context()))
	require.NoError(t, r.Reopen(t.Context()))
	require.NoError(t, r.Close())
	require.Empty(t, read(t, path))
	_, err = record.Open(filepath.Dir(path), record.Options{})
	require.Error(t, err)
}
