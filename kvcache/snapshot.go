package kvcache

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// SnapshotVersion is the version of the format that [Index.Export] writes.
// [Index.Import] reads it and all before it: version 1, which had no positions.
const SnapshotVersion = 2

// What [Index.Import] refuses, to be told apart by errors.Is. None of them has
// changed anything.
var (
	// ErrSnapshotFormat: the data is no snapshot of an index at all.
	ErrSnapshotFormat = errors.New("kvcache: not a snapshot")
	// ErrSnapshotVersion: another version of this package wrote it, in a format
	// that this one does not read. Take a new snapshot, or start cold.
	ErrSnapshotVersion = errors.New("kvcache: snapshot of another version")
	// ErrSnapshotKeys: block keys were computed in another way, so that none of
	// them would ever match.
	ErrSnapshotKeys = errors.New("kvcache: snapshot with other block keys")
	// ErrSnapshotCorrupt: it is damaged or incomplete.
	ErrSnapshotCorrupt = errors.New("kvcache: damaged snapshot")
	// ErrSnapshotTooLarge: it comes from a reader that cannot seek, and is larger
	// than the memory that the index may take. Put it in a file first.
	ErrSnapshotTooLarge = errors.New("kvcache: snapshot too large")
)

// A snapshot is a header and sections. All numbers are little-endian.
//
//	header   8 bytes magic, u32 version, u32 reserved (0), u64 fingerprint of the
//	         way keys are computed
//	section  u8 kind, u32 length, payload, u64 xxHash64 of all of these before it
//
// The sections of each owner are one that describes it, then its blocks: those of
// runs matched lately, then the others. The last section closes the file; its
// payload has the number of sections before it, of pairs, and the xxHash64 of
// every byte before it.
//
//	owner    u16 which of the owners of that name, u16 length and name, u32 block
//	         size, u8 number of full-attention groups, of groups with copies beside
//	         them, and of groups with other attention, then each as i64. Since
//	         version 2: u8 flags, of which 1 says that a position follows, u64 number
//	         and u64 proof, 2 that everything was applied up to there, and 4 that what
//	         is missing follows, i64 copies, u64 their sum and u8 the reason
//	blocks   pieces of runs: u16 blocks n, u16 how many were matched lately,
//	         u8 form, n u64 keys, then the engine's hashes. In form 0, plain, one
//	         u64 for each block, which has one copy in GPU memory. In form 1, for
//	         each block u8 hashes, and for each of these u64 hash and u8: tiers as
//	         bits, one copy in each; or 0x80 and a number of groups, each of them
//	         u8 which, and u32 copies by tier.
const (
	snapMagic      = "KVSTEER\x1a"
	snapHeaderSize = len(snapMagic) + 4 + 4 + 8
	snapSectionTop = 1 + 4
	snapSumSize    = 8
	snapEndSize    = 3 * 8
	snapOldest     = 1 // version

	// snapSection is when the writer starts another section; the lock is held for
	// one section at a time while it is imported.
	snapSection = 64 << 10
	// snapSectionMax is the largest section that a reader accepts: what the
	// writer has begun plus the largest piece of a run.
	snapSectionMax = snapSection + 8 + runMax*(8+1+snapHashes*(8+1+groupsMax*(1+NumTiers*4)))
	// snapHashes is how many hashes of one block a snapshot keeps. One is usual.
	snapHashes = 8
	// snapNameMax bounds an owner's name, in bytes.
	snapNameMax = 4 << 10
)

// Kinds of section.
const (
	snapOwner byte = iota + 1
	snapHot
	snapCold
	snapEnd
)

// Flags of an owner.
const (
	snapPlaced byte = 1 << iota
	snapWhole
	snapShort
	snapFlags = 1<<iota - 1
)

// Forms of a piece of a run, and the mark of a hash with counts.
const (
	snapPlain  = 0
	snapMixed  = 1
	snapCounts = 0x80
)

// snapKeys tells keys computed in one way from those computed in another.
func snapKeys() uint64 {
	h := Hasher{BlockSize: 1}
	return uint64(h.Next(h.Root(Scope{Adapter: "a", Salt: "s"}), []uint32{1, 2, 3}, []Extra{{ID: "x", Offset: 1}}))
}

func snapHeader() []byte {
	b := append(make([]byte, 0, snapHeaderSize), snapMagic...)
	b = binary.LittleEndian.AppendUint32(b, SnapshotVersion)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint64(b, snapKeys())
}

func checkSnapHeader(b []byte) error {
	if string(b[:len(snapMagic)]) != snapMagic {
		return ErrSnapshotFormat
	}
	b = b[len(snapMagic):]
	if v := binary.LittleEndian.Uint32(b); v < snapOldest || v > SnapshotVersion {
		return fmt.Errorf("%w: version %d, this one reads %d to %d; take a new snapshot",
			ErrSnapshotVersion, v, snapOldest, SnapshotVersion)
	}
	if binary.LittleEndian.Uint32(b[4:]) != 0 {
		return snapCorrupt("reserved bytes are set")
	}
	if binary.LittleEndian.Uint64(b[8:]) != snapKeys() {
		return ErrSnapshotKeys
	}
	return nil
}

func snapCorrupt(what string) error { return fmt.Errorf("%w: %s", ErrSnapshotCorrupt, what) }
