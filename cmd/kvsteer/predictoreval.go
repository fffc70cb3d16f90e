package main

import (
	"context"
	"fmt"
	"io"
)

// predictorEval replays recorded requests through the predictor.
func predictorEval(_ context.Context, args []string, _, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "usage: kvsteer predictor-eval FILE...")
		return exitUsage
	}
	return exitOK
}
