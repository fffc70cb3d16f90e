//go:build !unix

package kvcache_test

import "time"

func cpuTime() time.Duration { return 0 }
