package trtllm

import (
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// Decoder decodes the messages of a [Transport] for one [follow.Follower]. The
// zero value is ready; it is not for concurrent use.
//
// Of an engine with several pools (sliding windows) it takes the one of the
// greatest window for full attention. It learns of that from the events; when it
// joins in the middle and the greatest window comes late, what it took for full
// attention before is cleared and counted as malformed, so that the Follower
// holds no more than a lower bound.
//
// Blocks of fewer tokens than the engine's block size can't be reused and are
// left out. A "stored" event says in which cache level each block lies, level 0
// the GPU's memory, 1 the host's, any other remote; an "updated" event moves a
// block, as a copy in the new tier and then a removal from the old one.
type Decoder struct {
	// TokensPerBlock is the engine's tokens_per_block. 0 means to learn it from
	// blocks that have successors; until then only blocks of 32 tokens count.
	TokensPerBlock int

	wire  wire.TRTLLMDecoder
	begun bool
	epoch int64
}

var _ follow.Decoder = (*Decoder)(nil)

// Decode implements [follow.Decoder]. The error wraps [wire.ErrSyntax] or
// [wire.ErrShape].
func (d *Decoder) Decode(payload []byte) (*kvcache.Batch, error) {
	if epoch := epochOf(payload); !d.begun || epoch != d.epoch {
		// Another process may have other pools and blocks.
		d.wire = wire.TRTLLMDecoder{TokensPerBlock: d.TokensPerBlock}
		d.begun, d.epoch = true, epoch
	}
	b, err := d.wire.DecodeEvent(payload)
	if err != nil {
		return nil, err
	}
	return &b.Batch, nil
}

// epochOf reads what payload wrote, 0 of events from elsewhere.
func epochOf(p []byte) int64 {
	const digits = 20
	rest, ok := strings.CutPrefix(string(p[:min(len(p), len(epochKey)+digits)]), epochKey)
	if !ok {
		return 0
	}
	text, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
