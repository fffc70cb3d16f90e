package bpe

// heap is a binary heap with the least first.
type heap []uint64

func (h *heap) init() {
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap) down(i int) {
	s := *h
	v := s[i]
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1] < s[child] {
			child++
		}
		if s[child] >= v {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = v
}

func (h *heap) replace(v uint64) {
	(*h)[0] = v
	h.down(0)
}

func (h *heap) pop() {
	old := *h
	last := len(old) - 1
	old[0] = old[last]
	*h = old[:last]
	if last > 0 {
		h.down(0)
	}
}

func (h *heap) push(v uint64) {
	*h = append(*h, v)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent] <= v {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = v
}
