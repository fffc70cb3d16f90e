//go:build !race

package classify

// raced: the race detector is off.
const raced = false
