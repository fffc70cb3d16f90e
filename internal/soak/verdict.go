package main

import (
	"math"
	"slices"
	"time"
)

// judgement is what became of one measure after the warm-up.
type judgement struct {
	measure measure
	// first and last are where the line through the periods begins and ends, least and most
	// the extremes of all samples.
	first, last, least, most float64
	// growth is from first to last, atMost how much that is at most, with 95% confidence;
	// both are shares of first.
	growth, atMost float64
	// grows: it does, by more than is allowed. If not, but it can't be ruled out, it is
	// unclear. Both are failures: what is to be shown is that nothing grows.
	grows, unclear bool
}

// judge says what grows: a measure of which it is not certain, to 95%, that the line through
// the periods of the churn rises by no more than the limit, or than the measure may be off.
//
// Within a period most measures go up and down, by more than the limit: caches are emptied
// and fill again. Each period has all of that once, so that only growth and chance tell the
// periods' means apart; chance is then what lies around the line, and Student's distribution
// says how far the line may be off for it.
func judge(groups [][]sample, limit float64) []judgement {
	at := make([]float64, len(groups))
	var first, last time.Duration
	for i, g := range groups {
		sum := 0.0
		for k := range g {
			sum += g[k].at.Seconds()
		}
		at[i] = sum / float64(len(g))
		if i == 0 {
			first = g[0].at
		}
		last = g[len(g)-1].at
	}
	var all []judgement
	for m := range measures {
		j := judgement{measure: m, least: math.Inf(1), most: math.Inf(-1)}
		means := make([]float64, len(groups))
		for i, g := range groups {
			values := make([]float64, len(g))
			for k := range g {
				values[k] = g[k].values[m]
			}
			means[i] = middle(values)
			j.least, j.most = min(j.least, slices.Min(values)), max(j.most, slices.Max(values))
		}
		l := through(at, means)
		j.first, j.last = l.at(first.Seconds()), l.at(last.Seconds())
		rise := j.last - j.first
		atMost := rise + l.slopeError*student(len(groups)-lineTakes)*(last-first).Seconds()
		_, _, slack := m.about()
		allowed := max(slack, limit*j.first)
		j.grows = rise > allowed
		j.unclear = !j.grows && atMost > allowed
		if j.first > 0 {
			j.growth, j.atMost = rise/j.first, atMost/j.first
		}
		all = append(all, j)
	}
	return all
}

// after drops the samples of the warm-up.
func after(samples []sample, warm time.Duration) []sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.at < warm })
}

// line is y = level + slope (x - middle), with the standard error of its slope.
type line struct{ middle, level, slope, slopeError float64 }

func (l *line) at(x float64) float64 { return l.level + l.slope*(x-l.middle) }

// lineTakes is how many points a line goes through whatever they are.
const lineTakes = 2

// through is the line of least squares.
func through(x, y []float64) line {
	n := float64(len(x))
	var l line
	for i := range x {
		l.middle += x[i] / n
		l.level += y[i] / n
	}
	var spread, together float64
	for i := range x {
		dx := x[i] - l.middle
		spread += dx * dx
		together += dx * (y[i] - l.level)
	}
	if spread == 0 {
		return l
	}
	l.slope = together / spread
	var off float64
	for i := range x {
		d := y[i] - l.at(x[i])
		off += d * d
	}
	if len(x) > lineTakes {
		l.slopeError = math.Sqrt(off / (n - lineTakes) / spread)
	}
	return l
}

// student is the 95th percentile of Student's distribution, by degrees of freedom; for more
// than the table has that of the last, which is on the safe side.
func student(freedom int) float64 {
	table := [...]float64{
		6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
		1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
	}
	return table[min(max(freedom, 1), len(table))-1]
}
