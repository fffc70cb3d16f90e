package ledger

// chunk is how many records lie together. A queue that lay together as a whole would be
// copied when it grows, which of a long one takes milliseconds, under the lock.
const chunk = 256

// fifo is a queue of records. Its zero value is empty.
type fifo struct {
	chunks [][]Record // none is empty; the last takes what is pushed, until it has no room
	n      int
	spare  []Record // the memory of the last one that was emptied
}

func (q *fifo) push(r *Record) {
	last := len(q.chunks) - 1
	if last < 0 || len(q.chunks[last]) == cap(q.chunks[last]) {
		fresh := q.spare
		q.spare = nil
		if fresh == nil {
			fresh = make([]Record, 0, chunk)
		}
		q.chunks = append(q.chunks, fresh)
		last++
	}
	q.chunks[last] = append(q.chunks[last], *r)
	q.n++
}

// pop moves the oldest to dst, at most so many.
func (q *fifo) pop(dst []Record, most int) []Record {
	for most > 0 && q.n > 0 {
		first := q.chunks[0]
		n := min(len(first), most)
		dst = append(dst, first[:n]...)
		clear(first[:n]) // what their strings hold is not needed here
		if n < len(first) {
			q.chunks[0] = first[n:]
		} else {
			q.chunks[0] = nil
			q.chunks = q.chunks[1:]
			if cap(first) == chunk {
				q.spare = first[:0]
			}
		}
		q.n -= n
		most -= n
	}
	return dst
}
