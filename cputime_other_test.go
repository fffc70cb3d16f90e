//go:build !linux

package kvsteer_test

import "time"

const clockProcessCPU, clockThreadCPU = 2, 3

// cpuTime is not known here.
func cpuTime(uintptr) time.Duration { return 0 }
