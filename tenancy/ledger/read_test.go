package ledger_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

const goodLine = `{"kvsteer_usage":1,"id":"a","attempt":1,"state":"settled","at":"2026-11-30T12:00:00Z","model":"m","uncached":1,"cached":2,"cached_known":true,"cache_write":3,"output":4,"reasoning":0,"cost":5,"source":"provider","from_the_future":{}}`

func entries(t *testing.T, r io.Reader) (out []ledger.Entry) {
	t.Helper()
	require.NoError(t, ledger.Read(r, func(e *ledger.Entry) error {
		out = append(out, *e)
		return nil
	}))
	return out
}

func TestRead(t *testing.T) {
	text := goodLine + "\r\n" + "\n" + "{}\n" + "null\n[]\n" + strings.Repeat("y", 200_000) + "\n" +
		"\x00\x00" + strings.Replace(goodLine, `"kvsteer_usage":1,`, "", 1) + "\n" + goodLine
	for name, r := range map[string]io.Reader{
		"at once":      strings.NewReader(text),
		"byte by byte": iotest.OneByteReader(strings.NewReader(text)),
	} {
		got := entries(t, r)
		require.Len(t, got, 7, name)
		require.Equal(t, int64(2), got[0].Record.Cached)
		require.Equal(t, 1, got[0].Line)
		require.Contains(t, got[1].Damage, "no ID")
		require.Equal(t, 3, got[1].Line)
		require.NotEmpty(t, got[2].Damage)
		require.NotEmpty(t, got[3].Damage)
		require.Contains(t, got[4].Damage, "too long")
		require.Equal(t, got[0].Record, got[5].Record)
		require.True(t, got[6].Unfinished)
		require.Nil(t, got[6].Record)
	}
}

// Sums without the lines of a newer version would be wrong, so there are none.
func TestReadRefusesANewerVersion(t *testing.T) {
	err := ledger.Read(strings.NewReader(goodLine+"\n"+`{"kvsteer_usage":7,"id":17}`+"\n"), func(*ledger.Entry) error { return nil })
	require.ErrorIs(t, err, ledger.ErrVersion)
	require.ErrorContains(t, err, "line 2")
}

func TestReadStops(t *testing.T) {
	mine := errors.New("mine")
	require.ErrorIs(t, ledger.Read(strings.NewReader(goodLine+"\n"), func(*ledger.Entry) error { return mine }), mine)
	require.ErrorIs(t, ledger.Read(iotest.ErrReader(mine), nil), mine)
}

func TestSeen(t *testing.T) {
	var seen ledger.Seen
	r := record(1)
	require.True(t, seen.First(r))
	require.False(t, seen.First(r))
	for _, change := range []func(){
		func() { r.State = ledger.Settled }, func() { r.State = ledger.Voided }, func() { r.Attempt = 2 }, func() { r.ID = "r12" }, func() { r.Attempt = 12 },
	} {
		change()
		require.True(t, seen.First(r))
		require.False(t, seen.First(r))
	}
}

// Whatever is read, what comes is valid, and can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(goodLine + "\n"))
	f.Add([]byte(goodLine + "\n\x00\x00" + goodLine[:40]))
	f.Add([]byte("{}\n\n{\"kvsteer_usage\":2}\n"))
	f.Add([]byte(strings.Replace(goodLine, `"m"`, `"\u0000\ud800"`, 1) + "\n"))
	f.Add([]byte(strings.Replace(goodLine, `2026`, `0000`, 1) + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var records []ledger.Record
		err := ledger.Read(bytes.NewReader(text), func(e *ledger.Entry) error {
			if (e.Record == nil) == (e.Damage == "") {
				t.Fatalf("not one thing: %+v", e)
			}
			if e.Record != nil {
				records = append(records, *e.Record)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ledger.ErrVersion) {
			t.Fatal(err)
		}
		var again bytes.Buffer
		require.NoError(t, ledger.Encode(&again, records))
		got := entries(t, &again)
		require.Len(t, got, len(records))
		for i := range got {
			require.Equal(t, records[i], *got[i].Record)
		}
	})
}
