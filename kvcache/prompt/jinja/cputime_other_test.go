//go:build !unix

package jinja

import "time"

var began = time.Now()

func spent() time.Duration { return time.Since(began) }
