package kvcache_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// unseal takes the checksums, the lengths' upper halves and the end off a snapshot:
// what is left for a fuzzer to change is what a snapshot means.
func unseal(snap []byte) []byte {
	const header, top, sum, end = 24, 5, 8, 4
	var out []byte
	for at := header; snap[at] != end; {
		n := int(binary.LittleEndian.Uint32(snap[at+1:]))
		out = binary.LittleEndian.AppendUint16(append(out, snap[at]), uint16(n))
		out = append(out, snap[at+top:at+top+n]...)
		at += top + n + sum
	}
	return out
}

// seal makes a snapshot of anything.
func seal(version uint32, raw []byte) []byte {
	const top = 3
	var sections []kvcache.SnapshotSection
	for len(raw) >= top {
		kind, n := raw[0], int(binary.LittleEndian.Uint16(raw[1:]))
		n = min(n, len(raw)-top)
		sections = append(sections, kvcache.SnapshotSection{Kind: kind, Payload: raw[top : top+n]})
		raw = raw[top+n:]
	}
	return kvcache.SealSnapshot(version, sections)
}

func TestSeal(t *testing.T) {
	snap := smallSnapshot(t)
	require.Equal(t, snap, seal(kvcache.SnapshotVersion, unseal(snap)))
}

// FuzzImport imports anything, as it is and as the content of a snapshot whose
// checksums are right, into an index that holds something already: whatever it is,
// the index stays whole, and a refusal changes nothing. Run it with
// -fuzzminimizetime 10x: an input covers a little more or less each time, since maps
// have no order, and go test would spend its minutes on making it smaller.
func FuzzImport(f *testing.F) {
	one := kvcache.NewIndex(kvcache.Options{MaxOrphans: 1})
	o := one.Join("worker 0")
	one.Apply(o, testChain(3))
	f.Add(byte(kvcache.SnapshotVersion), unseal(export(f, one)))
	one.SetPosition(o, kvcache.Position{Seq: 1, Whole: true})
	f.Add(byte(kvcache.SnapshotVersion), unseal(export(f, one)))
	orphans := testChain(5)
	orphans.Hashes, orphans.Tokens = orphans.Hashes[3:], orphans.Tokens[6:]
	orphans.HasParent, orphans.Parent = true, 99
	one.Apply(o, orphans)
	one.Apply(o, &kvcache.Event{Kind: kvcache.Stored, Hashes: orphans.Hashes, Tier: kvcache.TierCPU})
	one.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: []kvcache.EngineHash{2}})
	again := testChain(3)
	again.Group, again.Hashes = 1, []kvcache.EngineHash{1, 12, 13}
	one.Apply(o, again)
	f.Add(byte(kvcache.SnapshotVersion), unseal(export(f, one)))
	f.Add(byte(1), unseal(smallSnapshot(f)))
	f.Add(byte(0), []byte("KVSTEER"))
	f.Fuzz(func(t *testing.T, version byte, raw []byte) {
		importAnything(t, raw, 3)
		importAnything(t, seal(uint32(version), raw), 3)
	})
}
