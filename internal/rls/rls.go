// Package rls is recursive least squares with exponential forgetting: a linear
// model that is refitted in constant time with every observation.
//
// The update is the textbook one (Haykin, Adaptive Filter Theory, chapter on the
// RLS algorithm): gain k = P x / (f + x'P x), theta += k (y - theta'x),
// P = (P - k x'P) / f, with forgetting factor f.
package rls

import "math"

// Dim is the number of features of a Model.
const Dim = 6

// Vector holds one value a feature.
type Vector [Dim]float64

// Dot returns the inner product.
func (v *Vector) Dot(w *Vector) float64 {
	sum := 0.0
	for i := range v {
		sum += v[i] * w[i]
	}
	return sum
}

// Model is a linear model under estimation. It is not safe for concurrent use.
type Model struct {
	// Theta are the current coefficients.
	Theta Vector

	prior   Vector
	spread  Vector
	forget  float64
	cov     [Dim]Vector
	updates int
}

// New returns a Model that starts at prior; spread is how far each coefficient
// may plausibly lie from it (one standard deviation, in units of the noise).
// forget lies in (0, 1]: an observation's weight falls by it with every later one.
func New(prior, spread Vector, forget float64) *Model {
	m := &Model{prior: prior, spread: spread, forget: forget}
	m.reset()
	return m
}

func (m *Model) reset() {
	m.Theta = m.prior
	for i := range m.cov {
		m.cov[i] = Vector{}
		m.cov[i][i] = m.spread[i] * m.spread[i]
	}
}

// Updates counts the observations taken in.
func (m *Model) Updates() int { return m.updates }

// Update takes in one observation. Values that are not finite are ignored.
func (m *Model) Update(x *Vector, y float64) {
	var px Vector // P x
	for i := range m.cov {
		px[i] = m.cov[i].Dot(x)
	}
	denom := m.forget + px.Dot(x)
	err := y - m.Theta.Dot(x)
	if !finite(denom) || !finite(err) || denom <= 0 {
		return
	}
	m.updates++
	for i := range m.Theta {
		m.Theta[i] += px[i] / denom * err
	}
	for i := range m.cov {
		for j := range m.cov[i] {
			m.cov[i][j] = (m.cov[i][j] - px[i]*px[j]/denom) / m.forget
		}
	}
	healthy := true
	for i := range m.cov {
		// Forgetting without excitation blows the covariance up in the directions
		// that no observation touches; it never need exceed what we started from.
		limit := m.spread[i] * m.spread[i]
		if m.cov[i][i] > limit {
			shrink := math.Sqrt(limit / m.cov[i][i])
			for j := range m.cov {
				m.cov[i][j] *= shrink
				m.cov[j][i] *= shrink
			}
		}
		healthy = healthy && m.cov[i][i] >= 0 && finite(m.Theta[i])
	}
	if !healthy {
		m.reset()
	}
}

// NonNegative returns the coefficients under the condition that none is below
// zero, for quantities of which more can only cost more. Clamping a negative
// coefficient alone would leave the others wrong that had made up for it;
// conditioning the estimate on its being zero moves them as their covariance
// says.
func (m *Model) NonNegative() Vector {
	theta, cov := m.Theta, m.cov
	for range Dim {
		worst, depth := -1, 0.0
		for j := range theta {
			if v := cov[j][j]; theta[j] < 0 && v > 0 && theta[j]/math.Sqrt(v) < depth {
				worst, depth = j, theta[j]/math.Sqrt(v)
			}
		}
		if worst < 0 {
			break
		}
		condition(&theta, &cov, worst)
	}
	for j := range theta {
		theta[j] = max(theta[j], 0) // what is left is rounding
	}
	return theta
}

// condition fixes coefficient j at zero.
func condition(theta *Vector, cov *[Dim]Vector, j int) {
	var gain Vector
	for i := range cov {
		gain[i] = cov[i][j] / cov[j][j]
	}
	shift, row := theta[j], cov[j]
	for i := range cov {
		theta[i] -= gain[i] * shift
		for k := range cov[i] {
			cov[i][k] -= gain[i] * row[k]
		}
	}
	theta[j] = 0
	for i := range cov { // exactly, so that rounding can't bring it back
		cov[i][j], cov[j][i] = 0, 0
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
