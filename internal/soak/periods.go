package main

import "slices"

// fewestPeriods is of how many something can be said.
const fewestPeriods = 6

// periods divides samples into the periods of the churn, as many happenings each, whole ones
// only: what does not fill one goes from the beginning. whole is false if there are too few,
// and the samples are divided evenly: what goes up and down with the churn then looks like
// noise.
func periods(samples []sample, generation int) (groups [][]sample, whole bool) {
	if len(samples) < 2 { //nolint:mnd // a distance takes two
		return nil, false
	}
	end, span := samples[len(samples)-1].happened, samples[len(samples)-1].happened-samples[0].happened
	// A sample stands for what is between it and the next.
	n := (span + span/(len(samples)-1)) / generation
	if n >= fewestPeriods {
		all := make([][]sample, n)
		for _, s := range samples {
			if back := (end - s.happened) / generation; back < n {
				all[n-1-back] = append(all[n-1-back], s)
			}
		}
		if !slices.ContainsFunc(all, func(g []sample) bool { return len(g) == 0 }) {
			return all, true
		}
	}
	for i := range fewestPeriods {
		from, to := i*len(samples)/fewestPeriods, (i+1)*len(samples)/fewestPeriods
		if from < to {
			groups = append(groups, samples[from:to])
		}
	}
	return groups, false
}

// middle is the mean of the middle half: as steady as a mean where values are spread evenly,
// and not moved by one in four that lies anywhere.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	const quarter = 4
	cut := len(sorted) / quarter
	sorted = sorted[cut : len(sorted)-cut]
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return sum / float64(max(1, len(sorted)))
}
