//go:build ignore

// Packs unicode.txt.gz into tables.bin. Run by go generate.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
)

type table struct {
	name string
	rows [][]uint64
}

func main() {
	log.SetFlags(0)
	f, err := os.Open("unicode.txt.gz")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		log.Fatal(err)
	}
	tables := map[string]*table{}
	at := func(name string) *table {
		if tables[name] == nil {
			tables[name] = &table{name: name}
		}
		return tables[name]
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		kind, rest, _ := strings.Cut(sc.Text(), " ")
		key, value, ok := strings.Cut(rest, "  ")
		if !ok {
			log.Fatalf("not understood: %q", sc.Text())
		}
		switch kind {
		case "class":
			t := at("class " + key)
			for _, r := range strings.Fields(value) {
				t.rows = append(t.rows, bounds(r))
			}
		case "ccc":
			t := at("ccc")
			for _, r := range strings.Fields(value) {
				t.rows = append(t.rows, append(bounds(r), hex(key)))
			}
		default: // nfd, nfkd, comp, lower: code points to code points
			t := at(kind)
			row := []uint64{}
			for _, h := range strings.Fields(key + " " + value) {
				row = append(row, hex(h))
			}
			t.rows = append(t.rows, row)
		}
	}
	if err := sc.Err(); err != nil {
		log.Fatal(err)
	}
	names := make([]string, 0, len(tables))
	for n := range tables {
		names = append(names, n)
	}
	sort.Strings(names)
	var out []byte
	for _, n := range names {
		body := pack(tables[n])
		out = binary.AppendUvarint(out, uint64(len(n)))
		out = append(out, n...)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	if err := os.WriteFile("tables.bin", out, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("tables.bin: %d tables, %d bytes\n", len(names), len(out))
}

// pack writes each row as its length and its numbers; the first number is stored as its
// distance from the previous row's first, which keeps most of them to one or two bytes.
func pack(t *table) []byte {
	sort.SliceStable(t.rows, func(i, j int) bool { return t.rows[i][0] < t.rows[j][0] })
	var out []byte
	var prev uint64
	for _, row := range t.rows {
		out = binary.AppendUvarint(out, uint64(len(row)))
		out = binary.AppendUvarint(out, row[0]-prev)
		prev = row[0]
		for _, v := range row[1:] {
			out = binary.AppendUvarint(out, v)
		}
	}
	return out
}

// bounds reads LO-HI and returns LO and the number of members after it.
func bounds(s string) []uint64 {
	lo, hi, ok := strings.Cut(s, "-")
	if !ok {
		log.Fatalf("not a range: %q", s)
	}
	return []uint64{hex(lo), hex(hi) - hex(lo)}
}

func hex(s string) uint64 {
	v, err := strconv.ParseUint(s, 16, 32)
	if err != nil {
		log.Fatal(err)
	}
	return v
}
