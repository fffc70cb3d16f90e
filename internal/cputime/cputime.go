// Package cputime tells tests and benchmarks how long the code has computed. On a machine
// that others use as well, the time that passes says little about the code; what it uses
// of a processor says more.
//
// Only tests import it.
package cputime

import "time"

// Process is what this process has used of processors so far, garbage collection included:
// the difference of two is the cost of what lies between. Where the system does not tell,
// it is the time that has passed.
func Process() time.Duration { return process() }

// Thread is what the calling thread has used of its processor so far. The caller locks its
// goroutine to the thread (runtime.LockOSThread) if it may be moved between two calls. Where
// the system does not tell it of threads, it is that of the process.
func Thread() time.Duration { return thread() }
