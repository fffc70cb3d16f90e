package chaos

import (
	"context"
	"slices"
)

// Shrink leaves out of a plan the steps that are not needed for what fails, which says
// whether a plan still does, until none can be left out or ctx ends. fails may be asked
// about the same plan more than once.
func Shrink(ctx context.Context, p Plan, fails func(Plan) bool) Plan {
	for size := max(len(p.Steps)/2, 1); ; {
		p = without(ctx, p, size, fails)
		if size == 1 || ctx.Err() != nil {
			return p
		}
		size = max(size/2, 1)
	}
}

// without tries to leave out every stretch of so many steps, the last ones first: what
// follows the cause is the most of what is not needed.
func without(ctx context.Context, p Plan, size int, fails func(Plan) bool) Plan {
	for end := len(p.Steps); end > 0; end -= size {
		if ctx.Err() != nil {
			return p
		}
		start := max(end-size, 0)
		less := Plan{Seed: p.Seed, Steps: slices.Delete(slices.Clone(p.Steps), start, min(end, len(p.Steps)))}
		if fails(less) {
			p = less
		}
	}
	return p
}
