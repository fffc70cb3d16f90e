package main

import (
	"runtime"
	"sync"
)

// idleGoroutines is more than there ever are at a time while 1,500 requests are under way,
// which is when they begin to wait.
const idleGoroutines = 12_000

// peak lets so many goroutines be there at a time and end, and returns by how much that has
// the heap grow: the runtime keeps for good what describes a goroutine, some 500 bytes, for
// the next one. After that no stall of the machine, in which requests pile up, is a step of
// the heap of megabytes; what it has taken is no part of the samples. Goroutines that don't
// end are counted by themselves.
func peak(n int) (bytes float64) {
	heapNow := func() float64 {
		runtime.GC()
		runtime.GC()
		return heapBytes()
	}
	before := heapNow()
	var wg sync.WaitGroup
	end := make(chan struct{})
	for range n {
		wg.Go(func() { <-end })
	}
	close(end)
	wg.Wait()
	return max(0, heapNow()-before)
}
