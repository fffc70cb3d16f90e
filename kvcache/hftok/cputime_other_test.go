//go:build cgo && !linux

package hftok_test

import "time"

// cpuTime is not known.
func cpuTime() time.Duration { return 0 }
