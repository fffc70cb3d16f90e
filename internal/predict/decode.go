package predict

// Pace is what decides the time between tokens of an answer.
type Pace struct {
	// Decoding other requests share every step; Context tokens are read in each.
	Decoding, Context float64
	// Arriving tokens are being prefilled meanwhile, this request's and those
	// ahead of it.
	Arriving float64
	// Pressure is as in [Load].
	Pressure float64
}

const (
	paceBase = iota
	paceDecode
	paceContext
	paceArriving
	paceFull
	paceTerms
)

// NewITL returns the Fit for the time between tokens, which is assumed to be base
// seconds until something was observed.
func NewITL(base, forget float64) *Fit {
	prior, spread := make([]float64, paceTerms), make([]float64, paceTerms)
	prior[paceBase], spread[paceBase] = base, 3*base
	for i := paceDecode; i < paceTerms; i++ {
		spread[i] = base
	}
	return NewFit(prior, spread, forget)
}

func (p *Pace) vector() [paceTerms]float64 {
	const tenThousand = 1e4
	return [paceTerms]float64{
		paceBase: 1, paceDecode: p.Decoding / ten, paceContext: p.Context / tenThousand,
		paceArriving: p.Arriving / tenThousand, paceFull: p.Pressure,
	}
}

// Tempo holds the coefficients of a Fit from [NewITL].
type Tempo [paceTerms]float64

// NewTempo copies coefficients.
func NewTempo(c []float64) Tempo { return Tempo(c) }

// Time returns the time between tokens.
func (t *Tempo) Time(p *Pace) float64 {
	x := p.vector()
	sum := 0.0
	for i, v := range x {
		sum += t[i] * v
	}
	return sum
}

// UpdateITL takes in a measured time between tokens where expected was predicted.
func (f *Fit) UpdateITL(p *Pace, y, expected float64) {
	x := p.vector()
	f.Update(x[:], y, expected)
}
