// Package rls is recursive least squares with exponential forgetting: a linear
// model that is refitted in constant time with every observation.
//
// The update is the textbook one (Haykin, Adaptive Filter Theory, chapter on the
// RLS algorithm): gain k = P x / (f + x'P x), theta += k (y - theta'x),
// P = (P - k x'P) / f, with forgetting factor f.
package rls

import "math"

// Dim is the number of features of a Model.
const Dim = 5

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

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
