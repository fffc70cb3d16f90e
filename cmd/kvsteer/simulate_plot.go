package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/simulate"
)

// plots writes the charts of all points into a directory.
func plots(dir string, points []point) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // charts are for everybody
		return fmt.Errorf("the plots: %w", err)
	}
	for _, p := range points {
		ttft := &simulate.Chart{
			Title: "Time to first token, simulation of " + p.name, XLabel: "seconds", YLabel: "share of requests", LogX: true,
		}
		hits := &simulate.Chart{
			Title: "Cache hit rate over time, simulation of " + p.name, XLabel: "minutes", YLabel: "hit rate",
		}
		for _, r := range p.results {
			ttft.Series = append(ttft.Series, styled(simulate.CDF(r.Router, r.TTFT)))
			hits.Series = append(hits.Series, styled(simulate.HitsOverTime(r.Router, r)))
		}
		if err := plot(dir, p.name+"-ttft", ttft); err != nil {
			return err
		}
		if err := plot(dir, p.name+"-hits", hits); err != nil {
			return err
		}
	}
	if len(points) == 1 {
		return nil
	}
	name, _, _ := strings.Cut(points[0].name, "@")
	goodput := &simulate.Chart{
		Title: "Goodput, simulation of " + name, XLabel: "concurrent users", YLabel: "good requests a minute",
	}
	for i, r := range points[0].results {
		s := simulate.Series{Name: r.Router}
		for _, p := range points {
			s.X, s.Y = append(s.X, float64(p.concurrency)), append(s.Y, p.results[i].Goodput)
		}
		goodput.Series = append(goodput.Series, styled(s))
	}
	return plot(dir, name+"-goodput", goodput)
}

// styled sets off this library's lines, and those of what is no router.
func styled(s simulate.Series) simulate.Series {
	s.Bold, s.Dashed = strings.HasPrefix(s.Name, "kvsteer"), strings.HasPrefix(s.Name, "bound")
	return s
}

func plot(dir, name string, c *simulate.Chart) error {
	f, err := os.Create(filepath.Join(dir, name+".svg")) //nolint:gosec // the user names the directory
	if err != nil {
		return fmt.Errorf("the plots: %w", err)
	}
	if err := c.WriteSVG(f); err != nil {
		_ = f.Close() // the error before says why
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("the plots: %w", err)
	}
	return nil
}
