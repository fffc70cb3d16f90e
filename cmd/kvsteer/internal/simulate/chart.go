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
	ticks                   = 5
	legendLine              = 22
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

func (a *axis) value(share float64) float64 {
	if a.log {
		return a.low * math.Pow(a.high/a.low, share)
	}
	return a.low + share*(a.high-a.low)
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
	text(&b, plotLeft, plotTop-20, "start", c.Title)
	text(&b, plotLeft+plotWidth/2, plotTop+plotHeight+45, "middle", c.XLabel)
	text(&b, plotLeft, plotTop-4, "middle", c.YLabel)
	for i := range ticks + 1 {
		share := float64(i) / ticks
		v, h := x.value(share), y.value(share)
		fmt.Fprintf(&b, `<path d="M%.1f %d V%d M%d %.1f H%d" stroke="#ddd" fill="none"/>`+"\n",
			x.at(v), plotTop, plotTop+plotHeight, plotLeft, y.at(h), plotLeft+plotWidth)
		text(&b, x.at(v), plotTop+plotHeight+18, "middle", fmt.Sprintf("%.3g", v))
		text(&b, plotLeft-8, y.at(h)+4, "end", fmt.Sprintf("%.3g", h))
	}
	for i := range c.Series {
		s := &c.Series[i]
		colour := colours[i%len(colours)]
		fmt.Fprintf(&b, `<path d="%s" stroke="%s" stroke-width="1.8" fill="none"/>`+"\n", s.path(&x, &y), colour)
		at := plotTop + legendLine*i
		fmt.Fprintf(&b, `<path d="M%d %d h24" stroke="%s" stroke-width="3"/>`+"\n", plotLeft+plotWidth+15, at, colour)
		text(&b, plotLeft+plotWidth+45, float64(at+4), "start", s.Name)
	}
	b.WriteString("</svg>\n")
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the chart: %w", err)
	}
	return nil
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
