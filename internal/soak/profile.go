package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// startProfile writes a CPU profile to a file until what it returns is called.
func startProfile(path string) (stop func(), err error) {
	f, err := os.Create(path) //nolint:gosec // which file is for who calls the program
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
		}
	}, nil
}

// profileHeap writes what is on the heap, as of the last collection, to PREFIX.first after the
// warm-up and to PREFIX.last from then on: what has grown is told by
//
//	go tool pprof -top -diff_base PREFIX.first PREFIX.last
func (s *run) profileHeap(at *sample) error {
	if s.config.heaps == "" || at.at < s.config.warm {
		return nil
	}
	name := s.config.heaps + ".last"
	if !s.profiled {
		s.profiled, name = true, s.config.heaps+".first"
	}
	f, err := os.Create(name) //nolint:gosec // which file is for who calls the program
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}
