//go:build !unix

package cputime

import "time"

var began = time.Now()

func process() time.Duration { return time.Since(began) }
func thread() time.Duration  { return process() }
