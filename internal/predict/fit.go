package predict

import (
	"errors"
	"math"
)

// Shape of the errors that a Fit expects.
const (
	// noise is the relative error of one measurement that spreads are measured
	// against: a request that arrives in the middle of a step waits for its end.
	noise = 0.2
	// tolerance is how many times the usual error a measurement may be too long
	// before it loses its weight.
	tolerance = 2.5
	// maxError bounds what one measurement can pull, as a multiple of what was
	// expected.
	maxError = 4
	// scaleStep is how fast the usual error follows.
	scaleStep = 0.02
	// settling is the number of observations in which nothing counts as an
	// outlier yet: the prior may be far off.
	settling = 10
	// initialScale is the usual relative error assumed before.
	initialScale = 0.3
)

// errState reports a saved state that can't be one.
var errState = errors.New("predict: not a state of this model")

// Fit is a linear model without negative coefficients, estimated by recursive
// least squares with exponential forgetting (Haykin, Adaptive Filter Theory,
// chapter on the RLS algorithm) of the relative error. It is not safe for
// concurrent use.
//
// Nothing makes an engine faster by accident, but much can make it slower: a
// measurement far above the expected loses its weight (as under a Cauchy error,
// squared), one far below keeps it.
type Fit struct {
	dim     int
	prior   []float64
	limit   []float64 // greatest variance of each coefficient
	forget  float64
	theta   []float64
	cov     []float64 // dim x dim
	updates int
	scale   float64 // usual error, in logarithm

	px, xs, row []float64 // scratch
	fixed       []float64 // scratch: theta of the constrained fit
	fixedCov    []float64
}

// NewFit returns a Fit that starts at prior; spread is how far each coefficient
// may plausibly lie from it. forget lies in (0, 1]: an observation's weight falls
// by it with every later one.
func NewFit(prior, spread []float64, forget float64) *Fit {
	n := len(prior)
	f := &Fit{
		dim: n, forget: forget, prior: append([]float64(nil), prior...),
		limit: make([]float64, n), theta: make([]float64, n), cov: make([]float64, n*n),
		px: make([]float64, n), xs: make([]float64, n), row: make([]float64, n),
		fixed: make([]float64, n), fixedCov: make([]float64, n*n),
	}
	for i, s := range spread {
		f.limit[i] = s * s / (noise * noise)
	}
	f.reset()
	return f
}

func (f *Fit) reset() {
	copy(f.theta, f.prior)
	clear(f.cov)
	for i, v := range f.limit {
		f.cov[i*f.dim+i] = v
	}
	f.scale = initialScale
}

// Updates counts the observations taken in.
func (f *Fit) Updates() int { return f.updates }

// Update takes in that y was measured where x was known and expected was
// predicted. Values that are not finite or not positive are ignored.
func (f *Fit) Update(x []float64, y, expected float64) {
	if !(y > 0) || !(expected > 0) || math.IsInf(y, 0) || math.IsInf(expected, 0) {
		return
	}
	weight := f.weigh(math.Log(y / expected))
	err := y
	for i, v := range x {
		f.xs[i] = v / expected
		err -= f.theta[i] * v
	}
	err = min(max(err/expected, -maxError), maxError)
	denom := f.forget / weight
	for i := range f.px {
		f.px[i] = dot(f.cov[i*f.dim:(i+1)*f.dim], f.xs)
		denom += f.px[i] * f.xs[i]
	}
	if !finite(denom) || !finite(err) || denom <= 0 {
		return
	}
	f.updates++
	for i, p := range f.px {
		gain := p / denom
		f.theta[i] += gain * err
		row := f.cov[i*f.dim : (i+1)*f.dim]
		for j, q := range f.px {
			row[j] = (row[j] - gain*q) / f.forget
		}
	}
	f.bound()
}

// weigh returns the weight of an observation whose logarithmic error is z, and
// follows the usual error.
func (f *Fit) weigh(z float64) float64 {
	size := math.Abs(z)
	if f.updates < settling {
		f.scale += (size - f.scale) / float64(f.updates+2)
		over := max(size-1, 0)
		return 1 / (1 + over*over)
	}
	weight := 1.0
	if z > 0 {
		u := z / (tolerance * f.scale)
		weight = 1 / ((1 + u*u) * (1 + u*u))
	}
	f.scale = max(f.scale+scaleStep*(min(size, maxError*f.scale)-f.scale), 1e-3)
	return weight
}

// bound keeps the covariance sane. Forgetting without excitation blows it up in
// the directions that no observation touches; it never need exceed what we
// started from.
func (f *Fit) bound() {
	healthy := true
	for i, limit := range f.limit {
		v := f.cov[i*f.dim+i]
		if v > limit {
			shrink := math.Sqrt(limit / v)
			for j := range f.dim {
				f.cov[i*f.dim+j] *= shrink
				f.cov[j*f.dim+i] *= shrink
			}
		}
		healthy = healthy && v >= 0 && finite(f.theta[i])
	}
	if !healthy {
		f.reset()
	}
}

// Coefficients returns the coefficients under the condition that none is below
// zero, for quantities of which more can only cost more. Clamping a negative
// coefficient alone would leave the others wrong that had made up for it;
// conditioning the estimate on its being zero moves them as their covariance
// says. The result is valid until the next call.
func (f *Fit) Coefficients() []float64 {
	copy(f.fixed, f.theta)
	copied := false
	for range f.dim {
		worst, depth := -1, 0.0
		for j, t := range f.fixed {
			if t >= 0 {
				continue
			}
			if !copied {
				copy(f.fixedCov, f.cov)
				copied = true
			}
			if v := f.fixedCov[j*f.dim+j]; v > 0 && t/math.Sqrt(v) < depth {
				worst, depth = j, t/math.Sqrt(v)
			}
		}
		if worst < 0 {
			break
		}
		f.condition(worst)
	}
	for j, t := range f.fixed {
		f.fixed[j] = max(t, 0) // what is left is rounding
	}
	return f.fixed
}

// condition fixes coefficient j at zero.
func (f *Fit) condition(j int) {
	n := f.dim
	copy(f.row, f.fixedCov[j*n:(j+1)*n])
	shift, v := f.fixed[j], f.row[j]
	for i := range n {
		gain := f.fixedCov[i*n+j] / v
		if gain == 0 {
			continue
		}
		f.fixed[i] -= gain * shift
		to := f.fixedCov[i*n : (i+1)*n]
		for k, r := range f.row {
			to[k] -= gain * r
		}
	}
	f.fixed[j] = 0
	for i := range n { // exactly, so that rounding can't bring it back
		f.fixedCov[i*n+j], f.fixedCov[j*n+i] = 0, 0
	}
}

// AppendState appends what has been learned to s.
func (f *Fit) AppendState(s []float64) []float64 {
	s = append(s, float64(f.updates), f.scale)
	s = append(s, f.theta...)
	return append(s, f.cov...)
}

// StateLen is the number of values that AppendState appends.
func (f *Fit) StateLen() int { return 2 + f.dim + f.dim*f.dim }

// SetState takes over what AppendState gave. It refuses what can't be the state
// of this model and is then unchanged.
func (f *Fit) SetState(s []float64) error {
	if len(s) != f.StateLen() || !count(s[0]) || !(s[1] > 0) {
		return errState
	}
	cov := s[2+f.dim:]
	for _, v := range s {
		if !finite(v) {
			return errState
		}
	}
	for i, limit := range f.limit {
		if v := cov[i*f.dim+i]; v < 0 || v > limit*(1+1e-9) {
			return errState
		}
	}
	f.updates, f.scale = int(s[0]), s[1]
	copy(f.theta, s[2:2+f.dim])
	copy(f.cov, cov)
	return nil
}

func dot(v, w []float64) float64 {
	sum := 0.0
	for i, x := range v {
		sum += x * w[i]
	}
	return sum
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// count reports whether v can be a number of observations.
func count(v float64) bool {
	const most = 1 << 31
	return v >= 0 && v < most && v == math.Trunc(v)
}
