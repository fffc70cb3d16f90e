package predict

import "math"

// The heights at which a Calibration learns: four to an octave, from about a
// millisecond to half an hour. They are where the bits of a float64 put them, so
// that finding one's place takes no logarithm.
const (
	perOctave = 4
	octaves   = 21
	heights   = octaves*perOctave + 1
	lowest    = 1.0 / 1024

	placeShift = 50 // exponent and two bits of mantissa
	placeMask  = 1<<placeShift - 1
	firstPlace = (1023 - 10) << 2 // of lowest
)

const (
	// shiftStep, spreadStep and quantileStep are how fast corrections follow once
	// they rest on some observations.
	shiftStep, spreadStep, quantileStep = 0.1, 0.05, 0.05
	// core is how many times the usual deviation an observation may lie off before
	// the correction pays it less heed; at twice that it pays none.
	core = 1.5
	// initialSpread is the mean deviation assumed before anything was seen, in
	// logarithm, and initialHigh the 90th percentile in units of it (a normal
	// deviate has 1.6): the prior's p90 is 1.6 times its mean.
	initialSpread, initialHigh = 0.3, 1.6
	// unseen, remembered and longRemembered bound how many observations a height
	// stands for when it is levelled with others. Percentiles need more of them than
	// means: one that has seen a few must not pull along one that has seen hundreds.
	unseen, remembered, longRemembered = 0.01, 20, 400
	// midP and highP are the percentiles that are followed.
	midP, highP = 0.5, 0.9
	// mostWide bounds Calibration.wide: percentiles lie up to 7 times as far from the
	// mean as their heights say, or as near.
	mostWide = 2
	// gentlest is the least slope of corrected against uncorrected times, in
	// logarithm: a correction may compress differences but never hides them.
	gentlest = 0.1
)

// Calibration learns by how much predictions are off at their height, and how
// widely measurements scatter there: the 50th and 90th percentiles. It is not
// safe for concurrent use.
type Calibration struct {
	// All in logarithm; mid and high in units of spread.
	shift, spread, mid, high, seen [heights]float64
	// wide is the logarithm of what the 90th percentiles' distance from the mean is
	// multiplied by at all heights. Each height learns slowly, and levelling moves
	// what it has learned: wide follows how often what was given out held.
	wide float64
}

// NewCalibration returns one that corrects nothing.
func NewCalibration() *Calibration {
	c := new(Calibration)
	for i := range c.spread {
		c.spread[i], c.high[i] = initialSpread, initialHigh
	}
	return c
}

// place returns the height at or below v and how far v is on the way to the next.
func place(v float64) (int, float64) {
	if !(v > lowest) {
		return 0, 0
	}
	bits := math.Float64bits(v)
	i := int(bits>>placeShift) - firstPlace
	if i >= heights-1 {
		return heights - 2, 1
	}
	return i, float64(bits&placeMask) / (1 << placeShift)
}

// height is the i-th height in seconds.
func height(i int) float64 {
	return math.Float64frombits(uint64(i+firstPlace) << placeShift)
}

func between(a *[heights]float64, i int, f float64) float64 {
	return a[i] + f*(a[i+1]-a[i])
}

// Observe takes in that y was measured where the uncorrected prediction was
// expected and k was the curve. Percentiles are judged as k gives them out, not as
// a height has them: levelled with its neighbours, that may be another.
func (c *Calibration) Observe(k *Curve, expected, y float64) {
	if !(expected > 0) || !(y > 0) || !finite(expected) || !finite(y) {
		return
	}
	i, f := place(expected)
	c.adopt(i)
	c.adopt(i + 1)
	z := math.Log(y/expected) - between(&c.shift, i, f)
	spread := between(&c.spread, i, f)
	_, mid, high := k.At(expected)
	overMid, overHigh := math.Log(y/mid), math.Log(y/high)
	c.widen(overHigh)
	c.learn(i, 1-f, z, spread, overMid, overHigh)
	c.learn(i+1, f, z, spread, overMid, overHigh)
}

// widen moves all 90th percentiles by how far a measurement was above its own.
func (c *Calibration) widen(over float64) {
	n := 0.0
	for _, seen := range &c.seen {
		n += seen
	}
	c.wide = Wider(c.wide, over, n)
}

// Wider moves wide, the logarithm of what the distance of 90th percentiles is multiplied
// by, after n observations of which the last was above its own by over: nine of ten then
// stay below in the long run, whatever the reason (adaptive conformal inference).
func Wider(wide, over, n float64) float64 {
	return min(max(wide+quantilePace(n)*quantileMove(over, highP), -mostWide), mostWide)
}

// learn moves one height's corrections by an observation of some weight.
func (c *Calibration) learn(i int, weight, z, spread, overMid, overHigh float64) {
	if weight <= 0 {
		return
	}
	c.seen[i] += weight
	n := c.seen[i]
	size := math.Abs(z)
	pull := z
	if size > core*spread {
		pull = math.Copysign(max(2*core*spread-size, 0), z)
	}
	c.shift[i] += min(max(shiftStep, 1/(1+n)), 0.5) * weight * pull
	c.spread[i] = max(c.spread[i]+max(spreadStep, 0.5/(1+n))*weight*(min(size, maxError*c.spread[i])-c.spread[i]), 1e-3)
	step := quantilePace(n) * weight
	c.mid[i] += step * quantileMove(overMid, midP)
	c.high[i] += 3 * step * quantileMove(overHigh, highP)
	c.mid[i] = min(max(c.mid[i], -4), 4)
	c.high[i] = min(max(c.high[i], 0), 40)
}

// quantilePace is the length of a step after n observations.
func quantilePace(n float64) float64 { return max(quantileStep, 0.5/(1+n/5)) }

// quantileMove is the direction of a step, in proportion to the probability that it
// weighs up to: Robbins and Monro's way to a quantile.
func quantileMove(over, p float64) float64 {
	if over <= 0 {
		return p - 1
	}
	return p
}

// adopt gives a height that has seen nothing what the nearest one learned.
func (c *Calibration) adopt(i int) {
	if c.seen[i] > 0 {
		return
	}
	for d := 1; d < heights; d++ {
		for _, j := range [2]int{i - d, i + d} {
			if j >= 0 && j < heights && c.seen[j] > 0 {
				c.shift[i], c.spread[i], c.mid[i], c.high[i] = c.shift[j], c.spread[j], c.mid[j], c.high[j]
				return
			}
		}
	}
}

// Curve is a Calibration made ready for use. It is not modified once made.
type Curve struct {
	mean, mid, high [heights]float64 // seconds
}

// Fill sets the curve to what c has learned. A correction that fell with height
// would turn more work into less time; it is levelled.
func (k *Curve) Fill(c *Calibration) {
	low, high := c.span()
	var weight, long [heights]float64
	wide := math.Exp(c.wide)
	near := low
	for i := low; i <= high; i++ {
		if c.seen[i] > 0 {
			near = i
		}
		weight[i] = min(max(c.seen[i], unseen), remembered)
		long[i] = min(max(c.seen[i], unseen), longRemembered)
		k.mean[i] = c.shift[near]
		k.mid[i] = c.shift[near] + c.mid[near]*c.spread[near]
		k.high[i] = c.shift[near] + wide*c.high[near]*c.spread[near]
	}
	level(&k.mean, &weight, low, high)
	level(&k.mid, &long, low, high)
	level(&k.high, &long, low, high)
	for i := range heights {
		k.high[i] = max(k.high[i], k.mean[i], k.mid[i])
	}
}

// span returns the lowest and the highest height that have seen something.
func (c *Calibration) span() (low, high int) {
	low, high = 0, heights-1
	for low < high && c.seen[low] == 0 {
		low++
	}
	for high > low && c.seen[high] == 0 {
		high--
	}
	return low, high
}

// level turns logarithmic corrections from low to high into times that grow with
// height. Where they fall too fast it takes the weighted mean: the nearest curve,
// in squares, that doesn't (pool adjacent violators). Beyond both ends times are
// in proportion.
func level(a, weight *[heights]float64, low, high int) {
	var value, mass [heights]float64
	var size [heights]int
	n := 0
	for i := low; i <= high; i++ {
		value[n], mass[n], size[n] = a[i]+rise[i], weight[i], 1
		for n > 0 && value[n-1] > value[n] {
			sum := mass[n-1] + mass[n]
			value[n-1] += (value[n] - value[n-1]) * mass[n] / sum
			mass[n-1] = sum
			size[n-1] += size[n]
			n--
		}
		n++
	}
	i := low
	for b := range n {
		for range size[b] {
			a[i] = height(i) * math.Exp(value[b]-rise[i])
			i++
		}
	}
	for i := range low {
		a[i] = a[low] * (height(i) / height(low))
	}
	for i := high + 1; i < heights; i++ {
		a[i] = a[high] * (height(i) / height(high))
	}
}

// rise is how much a correction may have fallen from the lowest height to each.
var rise = func() (r [heights]float64) { //nolint:gochecknoglobals // an immutable table
	for i := range r {
		r[i] = (1 - gentlest) * math.Log(height(i)/lowest)
	}
	return r
}()

// At returns the corrected prediction and its 50th and 90th percentiles, in
// seconds.
func (k *Curve) At(expected float64) (mean, mid, high float64) {
	i, f := place(expected)
	mean, mid, high = between(&k.mean, i, f), between(&k.mid, i, f), between(&k.high, i, f)
	if expected < lowest || f == 1 { // beyond the ends in proportion
		out := max(expected, 0) / (height(i) + f*(height(i+1)-height(i)))
		return mean * out, mid * out, high * out
	}
	return mean, mid, high
}

// AppendState appends what has been learned to s.
func (c *Calibration) AppendState(s []float64) []float64 {
	for _, a := range c.arrays() {
		s = append(s, a[:]...)
	}
	return append(s, c.wide)
}

func (c *Calibration) arrays() [5]*[heights]float64 {
	return [5]*[heights]float64{&c.shift, &c.spread, &c.mid, &c.high, &c.seen}
}

// CalibrationStateLen is the number of values that AppendState appends.
const CalibrationStateLen = 5*heights + 1

// SetState takes over what AppendState gave. It refuses what can't be a state
// and is then unchanged.
func (c *Calibration) SetState(s []float64) error {
	const extreme = 50 // in logarithm
	if len(s) != CalibrationStateLen {
		return errState
	}
	wide := s[len(s)-1]
	if !(math.Abs(wide) <= mostWide) {
		return errState
	}
	for i, v := range s[:len(s)-1] {
		counts := i >= 4*heights
		if !finite(v) || counts && v < 0 || !counts && math.Abs(v) > extreme ||
			i >= heights && i < 2*heights && v <= 0 {
			return errState
		}
	}
	for i, a := range c.arrays() {
		copy(a[:], s[i*heights:])
	}
	c.wide = wide
	return nil
}
