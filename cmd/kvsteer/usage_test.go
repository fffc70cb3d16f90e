package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

const usageData = "testdata/usage/"

var updateUsage = flag.Bool("update-usage", false, "write the golden files of kvsteer usage anew")

func used(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = dispatch(context.Background(), commands(), append([]string{"usage"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// What a report looks like in each format. testdata/usage was written by hand: two files
// as a rotation leaves them, with an attempt that ended in the second, a record twice, one
// that was not reserved, three that are open, and names of bad intent.
func TestUsageGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"usage.txt":  {},
		"berlin.txt": {"-zone", "Europe/Berlin", "-from", "2026-11-30", "-to", "2026-12-01", "-tenant", "acme", "-by", "tenant,model,served", "-open", "1"},
		"usage.csv":  {"-csv"},
		"usage.json": {"-json"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := used(append(args, usageData+"usage*.jsonl")...)
			require.Equal(t, exitOK, code, errs)
			require.Empty(t, errs)
			golden := filepath.Join(usageData, name)
			if *updateUsage {
				require.NoError(t, os.WriteFile(golden, []byte(out), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))), out)
			_, twice, _ := used(append(args, usageData+"usage.jsonl", usageData+"usage*.jsonl")...)
			require.Equal(t, out, twice, "a file counts once")
		})
	}
}

// No cell begins as a formula does, and all lines have the header's columns.
func TestUsageCSVIsHarmless(t *testing.T) {
	var log strings.Builder
	for i, tenant := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "'quoted", `a","b`, "|x", "%x", "\n@x", "fine"} {
		name, err := json.Marshal(tenant)
		require.NoError(t, err)
		log.WriteString(`{"id":"` + string(rune('a'+i)) + `","attempt":1,"state":"settled","at":"2026-11-30T12:00:00Z","tenant":` + string(name) + "}\n")
	}
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(log.String()), 0o600))
	code, out, errs := used("-csv", "-by", "tenant", path)
	require.Equal(t, exitOK, code, errs)
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 15)
	for _, line := range lines[1:] {
		if line[0] != "fine" && line[0] != `a","b` {
			require.Equal(t, byte('\''), line[0][0], "%q", line[0])
		}
		for _, cell := range line[1:] {
			require.Regexp(t, `^[0-9]+(\.[0-9]{6})?$`, cell)
		}
	}
}

func TestUsageReadsWhatItIsGiven(t *testing.T) {
	text, err := os.ReadFile(usageData + "usage.jsonl")
	require.NoError(t, err)
	dir := t.TempDir()
	zipped := filepath.Join(dir, "usage.jsonl.gz")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(zipped, packed.Bytes(), 0o600))
	_, want, _ := used(usageData + "usage.jsonl")
	code, out, errs := used(zipped)
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, want, out)

	// A line that is being written does not count and is no fault; one that is damaged is.
	torn := filepath.Join(dir, "torn.jsonl")
	require.NoError(t, os.WriteFile(torn, append(text, `{"id":"half`...), 0o600))
	code, out, errs = used(torn)
	require.Equal(t, exitOK, code)
	require.Equal(t, want, out)
	require.Contains(t, errs, "torn.jsonl:10: the last line is unfinished")
	require.NoError(t, os.WriteFile(torn, append([]byte(strings.Repeat("rubbish\n", 20)), text...), 0o600))
	code, out, errs = used("-json", torn)
	require.Equal(t, exitFailed, code)
	require.Equal(t, 11, strings.Count(errs, "\n"), errs)
	require.Contains(t, errs, "20 lines can't be read")
	var rep usage.Report
	require.NoError(t, json.Unmarshal([]byte(out), &rep))
	require.Equal(t, int64(20), rep.Damaged)
	require.NoError(t, os.WriteFile(torn, []byte(`{"kvsteer_usage":2}`+"\n"), 0o600))
	code, out, errs = used(torn)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, "newer version")
}

// What can be read is printed, though a file is missing or cut off; the exit code, and the
// report itself, say that something is missing.
func TestUsageOfWhatCanBeRead(t *testing.T) {
	good := usageData + "usage.jsonl"
	_, all, _ := used("-json", good)
	var want usage.Report
	require.NoError(t, json.Unmarshal([]byte(all), &want))
	text, err := os.ReadFile(good)
	require.NoError(t, err)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Flush())
	cut := file("cut.jsonl.gz", packed.Bytes()) // its records are there, its end is not
	none := file("none.jsonl.gz", []byte("no such thing"))
	missing := filepath.Join(dir, "missing.jsonl")
	for _, c := range []struct {
		args   []string
		unread int64
	}{
		{[]string{good, missing}, 1},
		{[]string{missing, good}, 1},
		{[]string{filepath.Join(dir, "no*.jsonl"), "[", good, none, dir}, 4},
		{[]string{cut}, 1},
	} {
		code, out, errs := used(append([]string{"-json"}, c.args...)...)
		require.Equal(t, exitFailed, code, "%v", c.args)
		var got usage.Report
		require.NoError(t, json.Unmarshal([]byte(out), &got), "%v: %s", c.args, errs)
		require.Equal(t, c.unread, got.Unread, "%v: %s", c.args, errs)
		got.Unread = 0
		require.Equal(t, want, got, "%v", c.args)
		require.Equal(t, int(c.unread)+1, strings.Count(errs, "\n"), errs)
		_, out, _ = used(c.args...)
		require.Contains(t, out, "files that can't be read")
	}
	newer := file("newer.jsonl", []byte(`{"kvsteer_usage":2}`+"\n"))
	for _, args := range [][]string{{missing}, {"[", none}, {good, newer}} {
		code, out, _ := used(args...)
		require.Equal(t, exitFailed, code)
		require.Empty(t, out, "%v", args)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, dispatch(interrupted, commands(), []string{"usage", good}, &out, &errs))
	require.Empty(t, out.String(), "half of it would look like all")
}

func TestUsageIsCalledWrongly(t *testing.T) {
	for want, args := range map[string][]string{
		"name the files":            {},
		"choose one":                {"-json", "-csv", "-"},
		"unknown time zone":         {"-zone", "Mars/Olympus", "-"},
		"name the zone":             {"-zone", "Local", "-"},
		"neither a day nor a time":  {"-from", "yesterday", "-"},
		"can't group by \"colour\"": {"-by", "colour", "-"},
		"nothing is from":           {"-from", "2026-11-02", "-to", "2026-11-01", "-"},
		"-open is negative":         {"-open", "-1", "-"},
		"flag provided but not":     {"-frobnicate"},
	} {
		code, out, errs := used(args...)
		require.Equal(t, exitUsage, code, "%v", args)
		require.Empty(t, out)
		require.Contains(t, errs, strings.Replace(want, "a day nor a time", "a day such as", 1))
	}
	for _, name := range []string{usageData + "no*.jsonl", usageData + "no.jsonl", "[", usageData + "usage.jsonl.gz"} {
		code, _, errs := used(name)
		require.Equal(t, exitFailed, code)
		require.Contains(t, errs, name)
	}
	code, _, errs := used("-h")
	require.Equal(t, exitOK, code)
	require.Contains(t, errs, "unsplit")
}
