package dns_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/kvsteer/kvsteer/fleet/dns"
)

// FuzzParse: what is taken for an answer is one to the question, and the addresses
// are its own.
func FuzzParse(f *testing.F) {
	const id, asked = 7, "workers.test."
	s := &server{zone: map[string][]record{
		asked: {cname("a.test.", 1)}, "a.test.": addressesOf("10.0.0.1", "10.0.0.2"),
	}}
	q := &question{
		dnsmessage.Header{ID: id},
		dnsmessage.Question{Name: dnsmessage.MustNewName(asked), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
		true, false,
	}
	good := s.answer(q)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(patched(good, func(b []byte) { b[1] = id + 1 }))
	for _, fault := range faults() {
		for _, reply := range fault(q, good) {
			f.Add(reply)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		addrs, ttl, err := dns.Parse(data, id, asked)
		if err != nil {
			if len(addrs) > 0 {
				t.Fatal("both records and an error")
			}
			return
		}
		if binary.BigEndian.Uint16(data) != id || data[2]&0x80 == 0 {
			t.Fatal("another question's answer, or none")
		}
		if _, _, err := dns.Parse(data, id, "other.test."); err == nil {
			t.Fatal("it answers two questions")
		}
		if data[2]&2 != 0 && len(addrs) > 0 {
			t.Fatal("addresses of an answer that is cut")
		}
		if count := binary.BigEndian.Uint16(data[6:]); len(addrs) > int(count) {
			t.Fatalf("%d addresses of %d records", len(addrs), count)
		}
		for _, a := range addrs {
			if !a.Is4() || !bytes.Contains(data, a.AsSlice()) {
				t.Fatalf("%v is not in it", a)
			}
		}
		if ttl < 0 || len(addrs) > 0 && ttl >= time.Second<<31 {
			t.Fatalf("it holds for %v", ttl)
		}
	})
}
