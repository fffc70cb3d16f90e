package main

import (
	"slices"
	"time"
)

// judgement is what became of one measure after the warm-up.
type judgement struct {
	measure measure
	// first, middle and last are the medians of the thirds, least and most the extremes.
	first, middle, last, least, most float64
	// growth is from first to last, slope that of the line through all samples from its
	// beginning to its end; both are shares of first.
	growth, slope float64
	grows         bool
}

// judge says what grows. A measure grows if its last third is above its first, or the line
// through all of it rises, by more than the limit and more than the measure may be off.
func judge(samples []sample, limit float64) []judgement {
	var all []judgement
	at := make([]float64, len(samples))
	for i := range samples {
		at[i] = samples[i].at.Seconds()
	}
	for m := range measures {
		values := make([]float64, len(samples))
		for i := range samples {
			values[i] = samples[i].values[m]
		}
		third := len(values) / 3
		j := judgement{
			measure: m, least: slices.Min(values), most: slices.Max(values),
			first: median(values[:third]), middle: median(values[third : len(values)-third]), last: median(values[len(values)-third:]),
		}
		rise := theilSen(at, values) * (at[len(at)-1] - at[0])
		_, _, slack := m.about()
		allowed := max(slack, limit*j.first)
		j.grows = j.last-j.first > allowed || rise > allowed
		if j.first > 0 {
			j.growth, j.slope = (j.last-j.first)/j.first, rise/j.first
		}
		all = append(all, j)
	}
	return all
}

// after drops the samples of the warm-up.
func after(samples []sample, warm time.Duration) []sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.at < warm })
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// theilSen is the median of the slopes between all pairs of points: three in ten of them may
// lie anywhere without moving it far.
func theilSen(x, y []float64) float64 {
	var slopes []float64
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			if x[j] > x[i] {
				slopes = append(slopes, (y[j]-y[i])/(x[j]-x[i]))
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	return median(slopes)
}
