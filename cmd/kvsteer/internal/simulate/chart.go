package simulate

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
)

// Series is one line of a [Chart].
type Series struct {
	Name string
	X, Y []float64
	// Bold draws it thicker, and over the others; Dashed over that too, for what is no
	// rule. Not both.
	Bold, Dashed bool
}

// Chart is a line chart. Points that aren't finite break a line.
type Chart struct {
	Title, XLabel, YLabel string
	// LogX draws x on a logarithmic scale; values of zero or less are left out.
	LogX   bool
	Series []Series
}

// Geometry of a chart in pixels.
const (
	chartWidth, chartHeight = 900, 520
	plotLeft, plotTop       = 70, 50
	plotWidth, plotHeight   = 620, 400
	ticks                   = 5 // about as many
	legendLine              = 22
	margin                  = 12
)

// colours tell the lines apart also for most who see fewer colours.
var colours = [...]string{
	"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b", "#6a3d9a", "#bcbd22", "#000000",
}

// axis maps values to pixels.
type axis struct {
	low, high float64
	log       bool
	from, to  float64
}

func (a *axis) fit(values []float64) {
	for _, v := range values {
		if a.shows(v) {
			a.low, a.high = min(a.low, v), max(a.high, v)
		}
	}
}

func (a *axis) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.log || v > 0)
}

func (a *axis) settle() {
	if a.low > a.high {
		a.low, a.high = 0, 1
	}
	switch {
	case a.log:
		if a.low > a.high || a.low <= 0 {
			a.low, a.high = 1, 10
		}
	default:
		a.low = min(a.low, 0)
	}
	if a.low == a.high {
		a.high = a.low + 1
	}
}

func (a *axis) at(v float64) float64 {
	share := (v - a.low) / (a.high - a.low)
	if a.log {
		share = math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return a.from + share*(a.to-a.from)
}

// marks are the round values at which an axis has lines.
func (a *axis) marks() (out []float64) {
	const decade = 10
	if a.log {
		for power := math.Floor(math.Log10(a.low)); ; power++ {
			for _, m := range [...]float64{1, 2, 5} {
				switch v := m * math.Pow(decade, power); {
				case v > a.high:
					return out
				case v >= a.low:
					out = append(out, v)
				}
			}
		}
	}
	raw := (a.high - a.low) / ticks
	unit := math.Pow(decade, math.Floor(math.Log10(raw)))
	step := decade * unit
	for _, m := range [...]float64{1, 2, 5} { //nolint:mnd // round steps
		if m*unit >= raw {
			step = m * unit
			break
		}
	}
	for i := math.Ceil(a.low / step); i*step <= a.high*(1+1e-9); i++ {
		out = append(out, i*step)
	}
	return out
}

// WriteSVG draws the chart.
func (c *Chart) WriteSVG(w io.Writer) error {
	x := axis{low: math.Inf(1), high: math.Inf(-1), log: c.LogX, from: plotLeft, to: plotLeft + plotWidth}
	y := axis{low: math.Inf(1), high: math.Inf(-1), from: plotTop + plotHeight, to: plotTop}
	for i := range c.Series {
		x.fit(c.Series[i].X)
		y.fit(c.Series[i].Y)
	}
	x.settle()
	y.settle()

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", chartWidth, chartHeight)
	text(&b, margin, plotTop-28, "start", c.Title)
	text(&b, plotLeft+plotWidth/2, plotTop+plotHeight+45, "middle", c.XLabel)
	text(&b, margin, plotTop-10, "start", c.YLabel)
	for _, v := range x.marks() {
		fmt.Fprintf(&b, `<path d="M%.1f %d V%d" stroke="#ddd" fill="none"/>`+"\n", x.at(v), plotTop, plotTop+plotHeight)
		text(&b, x.at(v), plotTop+plotHeight+18, "middle", fmt.Sprintf("%.3g", v))
	}
	for _, v := range y.marks() {
		fmt.Fprintf(&b, `<path d="M%d %.1f H%d" stroke="#ddd" fill="none"/>`+"\n", plotLeft, y.at(v), plotLeft+plotWidth)
		text(&b, plotLeft-8, y.at(v)+4, "end", fmt.Sprintf("%.3g", v))
	}
	for _, layer := range [...]Series{{}, {Bold: true}, {Dashed: true}} { // what may lie under another shows through it
		for i := range c.Series {
			if l := &c.Series[i]; l.Bold == layer.Bold && l.Dashed == layer.Dashed {
				l.draw(&b, i, &x, &y)
			}
		}
	}
	b.WriteString("</svg>\n")
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the chart: %w", err)
	}
	return nil
}

// draw draws the i-th line and its legend.
func (s *Series) draw(b *bytes.Buffer, i int, x, y *axis) {
	style := fmt.Sprintf(`stroke=%q stroke-width="1.6"`, colours[i%len(colours)])
	if s.Bold {
		style = fmt.Sprintf(`stroke=%q stroke-width="3"`, colours[i%len(colours)])
	}
	if s.Dashed {
		style += ` stroke-dasharray="6 4"`
	}
	at := plotTop + legendLine*i
	fmt.Fprintf(b, `<path d=%q %s fill="none"/>`+"\n", s.path(x, y), style)
	fmt.Fprintf(b, `<path d="M%d %d h24" %s/>`+"\n", plotLeft+plotWidth+15, at, style)
	text(b, plotLeft+plotWidth+45, float64(at+4), "start", s.Name)
}

func (s *Series) path(x, y *axis) string {
	var b bytes.Buffer
	pen := "M"
	for i := range min(len(s.X), len(s.Y)) {
		if !x.shows(s.X[i]) || !y.shows(s.Y[i]) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, x.at(s.X[i]), y.at(s.Y[i]))
		pen = "L"
	}
	return b.String()
}

func text(b *bytes.Buffer, x, y float64, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	_ = xml.EscapeText(b, []byte(s)) // a Buffer takes everything
	b.WriteString("</text>\n")
}

// cdfPoints is how many points of a distribution are drawn.
const cdfPoints = 400

// CDF returns the distribution of ascending values as a line.
func CDF(name string, sorted []float64) Series {
	s := Series{Name: name}
	if len(sorted) == 0 {
		return s
	}
	for i := range cdfPoints + 1 {
		q := float64(i) / cdfPoints
		s.X, s.Y = append(s.X, Quantile(sorted, q)), append(s.Y, q)
	}
	return s
}

// HitsOverTime returns the hit rate as a line over minutes.
func HitsOverTime(name string, r *Result) Series {
	s := Series{Name: name, Y: slices.Clone(r.Hits)}
	for i := range r.Hits {
		s.X = append(s.X, r.HitStep.Minutes()*(float64(i)+0.5)) //nolint:mnd // the middle of the step
	}
	return s
}
