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
	// before its pull stops growing (Huber), and finest the least that counts as
	// usual: where most requests find an idle engine and are predicted to a
	// percent, those that must queue are no outliers.
	tolerance, finest = 1.5, 0.1
	// stall is the logarithmic error around which a measurement stops being one of
	// this work at all.
	stall = 1
	// maxError bounds what one measurement can pull, as a multiple of what was
	// expected.
	maxError = 4
	// scaleStep is how fast the usual error follows.
	scaleStep = 0.02
	// settling is the number of observations in which nothing counts as an
	// outlier yet: the prior may be far off.
	settling = 10
	// maxSweeps bounds the work of one update; settled is the change of a coefficient,
	// against the noise, that ends it sooner.
	maxSweeps, settled = 4, 1e-2
	// initialScale is the usual relative error assumed before.
	initialScale = 0.3
)

// errState reports a saved state that can't be one.
var errState = errors.New("predict: not a state of this model")

// Fit is a linear model whose coefficients are not negative, refitted with every
// observation: the least squares of the relative error, older ones counting less.
// It is not safe for concurrent use.
//
// It keeps the normal equations, in which forgetting is a multiplication, and
// goes on from the last solution by coordinate descent. Unlike the covariance of
// recursive least squares, they can't lose their definiteness to rounding, and
// the constraint is part of the problem: clamping a negative coefficient
// afterwards would leave those wrong that had made up for it. Whatever forgetting
// takes, the prior's weight is given back, centred where the estimate then is: a
// direction that no observation touches stays where it is and open to change.
//
// Nothing makes an engine faster by accident, but much can make it slower: a
// measurement far above the expected loses its weight, one far below keeps it.
type Fit struct {
	dim     int
	prior   []float64
	rigor   []float64 // the prior's weight on each coefficient
	forget  float64
	theta   []float64
	normal  []float64 // dim x dim, symmetric
	moment  []float64
	updates int
	scale   float64 // usual error, in logarithm

	xs, rest []float64 // scratch
}

// NewFit returns a Fit that starts at prior; spread is how far each coefficient
// may plausibly lie from it. forget lies in (0, 1]: an observation's weight falls
// by it with every later one.
func NewFit(prior, spread []float64, forget float64) *Fit {
	n := len(prior)
	f := &Fit{
		dim: n, forget: forget, scale: initialScale,
		prior: append([]float64(nil), prior...), theta: append([]float64(nil), prior...),
		rigor: make([]float64, n), normal: make([]float64, n*n), moment: make([]float64, n),
		xs: make([]float64, n), rest: make([]float64, n),
	}
	for i, s := range spread {
		f.rigor[i] = noise * noise / (s * s)
		f.normal[i*n+i] = f.rigor[i]
		f.moment[i] = f.rigor[i] * prior[i]
	}
	return f
}

// Updates counts the observations taken in.
func (f *Fit) Updates() int { return f.updates }

// Coefficients returns the estimate. It changes with the next update.
func (f *Fit) Coefficients() []float64 { return f.theta }

// Update takes in that y was measured where x was known and expected was
// predicted. Values that are not finite or not positive are ignored.
func (f *Fit) Update(x []float64, y, expected float64) {
	if !(y > 0) || !(expected > 0) || math.IsInf(y, 0) || math.IsInf(expected, 0) {
		return
	}
	size, estimate := 0.0, 0.0
	for i, v := range x {
		f.xs[i] = v / expected
		size += f.xs[i] * f.xs[i]
		estimate += f.xs[i] * f.theta[i]
	}
	if !finite(size) || !finite(estimate) {
		return
	}
	weight := f.weigh(math.Log(y / expected))
	target := estimate + min(max(y/expected-estimate, -maxError), maxError)
	f.updates++
	n := f.dim
	for i, v := range f.xs {
		row := f.normal[i*n : (i+1)*n]
		push := weight * v
		for j, w := range f.xs {
			row[j] = f.forget*row[j] + push*w
		}
		back := (1 - f.forget) * f.rigor[i]
		row[i] += back
		f.moment[i] = f.forget*f.moment[i] + push*target + back*f.theta[i]
	}
	f.solve()
}

// solve brings theta nearer to the solution of the normal equations under the
// constraint.
func (f *Fit) solve() {
	n := f.dim
	for i := range n {
		f.rest[i] = f.moment[i] - dot(f.normal[i*n:(i+1)*n], f.theta)
	}
	for range maxSweeps {
		most := 0.0
		for i := range n {
			d := f.normal[i*n+i]
			to := max(f.theta[i]+f.rest[i]/d, 0)
			change := to - f.theta[i]
			if change == 0 {
				continue
			}
			f.theta[i] = to
			for j, v := range f.normal[i*n : (i+1)*n] {
				f.rest[j] -= change * v
			}
			most = max(most, change*change*d)
		}
		if most < settled*settled*noise*noise {
			return
		}
	}
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
		far := z / stall
		weight = min(tolerance*max(f.scale, finest)/z, 1) / (1 + far*far*far*far)
	}
	f.scale = max(f.scale+scaleStep*(min(size, maxError*f.scale)-f.scale), 1e-3)
	return weight
}

// AppendState appends what has been learned to s.
func (f *Fit) AppendState(s []float64) []float64 {
	s = append(s, float64(f.updates), f.scale)
	s = append(s, f.theta...)
	s = append(s, f.moment...)
	return append(s, f.normal...)
}

// StateLen is the number of values that AppendState appends.
func (f *Fit) StateLen() int { return 2 + 2*f.dim + f.dim*f.dim }

// SetState takes over what AppendState gave. It refuses what can't be the state
// of this model and is then unchanged.
func (f *Fit) SetState(s []float64) error {
	if len(s) != f.StateLen() || !count(s[0]) || !(s[1] > 0) {
		return errState
	}
	for _, v := range s {
		if !finite(v) {
			return errState
		}
	}
	n := f.dim
	theta, moment, normal := s[2:2+n], s[2+n:2+2*n], s[2+2*n:]
	const rounding = 1e-6
	for i := range n {
		d := normal[i*n+i]
		if theta[i] < 0 || d < f.rigor[i]*(1-rounding) {
			return errState
		}
		for j := range i {
			v, w := normal[i*n+j], normal[j*n+i]
			if most := math.Sqrt(d * normal[j*n+j]); math.Abs(v-w) > rounding*most || math.Abs(v) > most*(1+rounding) {
				return errState
			}
		}
	}
	f.updates, f.scale = int(s[0]), s[1]
	copy(f.theta, theta)
	copy(f.moment, moment)
	copy(f.normal, normal)
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
