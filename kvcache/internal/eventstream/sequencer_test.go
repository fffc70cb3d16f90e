package eventstream

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func TestSequencer(t *testing.T) {
	closed, broken := errors.New("closed"), errors.New("broken")
	var sent [][][]byte
	var fails error
	s := NewSequencer(3, closed, func(frames [][]byte) error {
		sent = append(sent, frames)
		return fails
	})
	payload := []byte("a")
	seq, err := s.Publish("t", payload)
	require.NoError(t, err)
	require.Zero(t, seq)
	payload[0] = 'b'
	require.NoError(t, s.Record(follow.Message{Topic: "t", Seq: 1, Payload: []byte("lost")}))
	require.NoError(t, s.Send(follow.Message{Topic: "t", Seq: 7, Payload: []byte("jump")}))
	seq, err = s.Publish("t", nil)
	require.NoError(t, err)
	require.EqualValues(t, 8, seq)
	require.NoError(t, s.SendFrames([][]byte{[]byte("odd")}))
	require.Error(t, s.SendFrames(nil))
	require.Len(t, sent, 4)
	require.Equal(t, [][]byte{[]byte("t"), SeqFrame(7), []byte("jump")}, sent[1])

	fails = broken
	_, err = s.Publish("t", nil)
	require.ErrorIs(t, err, broken, "but it is kept for replay, as one that got lost")
	var kept []uint64
	for _, m := range s.History.From(0) {
		kept = append(kept, m.Seq)
	}
	require.Equal(t, []uint64{7, 8, 9}, kept)

	s.Close()
	s.Close()
	n := len(sent)
	_, err = s.Publish("t", nil)
	require.ErrorIs(t, err, closed)
	require.ErrorIs(t, s.Send(follow.Message{}), closed)
	require.ErrorIs(t, s.Record(follow.Message{}), closed)
	require.ErrorIs(t, s.SendFrames([][]byte{nil}), closed)
	require.Len(t, sent, n)
}

// Messages reach the transport in the order of their numbers, whoever sends them.
func TestSequencerOrder(t *testing.T) {
	const senders, each = 8, 200
	var got []uint64
	s := NewSequencer(0, errors.New("closed"), func(frames [][]byte) error {
		got = append(got, binary.BigEndian.Uint64(frames[1]))
		return nil
	})
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				_, err := s.Publish("", nil)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, got, senders*each)
	for i, seq := range got {
		require.EqualValues(t, i, seq)
	}
}

func TestAnswer(t *testing.T) {
	h := NewHistory(5)
	for seq := range uint64(4) {
		h.Add(follow.Message{Topic: "t", Seq: seq, Payload: []byte{byte(seq)}})
	}
	for _, withTopic := range []bool{true, false} {
		var got [][][]byte
		require.NoError(t, h.Answer(2, withTopic, func(frames [][]byte) error {
			got = append(got, frames)
			return nil
		}))
		require.Equal(t, [][][]byte{
			Reply(follow.Message{Topic: "t", Seq: 2, Payload: []byte{2}}, withTopic),
			Reply(follow.Message{Topic: "t", Seq: 3, Payload: []byte{3}}, withTopic),
			End(withTopic),
		}, got)
	}
	gone := errors.New("gone")
	calls := 0
	require.ErrorIs(t, h.Answer(0, false, func([][]byte) error { calls++; return gone }), gone)
	require.Equal(t, 1, calls)
}
