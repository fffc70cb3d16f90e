//go:build race

package classify

// raced: the race detector is on, under which pools forget at random.
const raced = true
