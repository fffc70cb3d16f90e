package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// encoder computes prompts from the models' files, as long as each engine confirms
// that it has the same ids, and asks the engines where it can't.
type encoder struct {
	*prompt.Encoder // nil: the router asks the engines

	options []kvsteer.Option
	source  *local.Source
	prover  *prompt.Prover
}

func newEncoder(f files, logger *slog.Logger) (*encoder, error) {
	if len(f) == 0 {
		return &encoder{}, nil
	}
	source, err := local.New(local.Options{Models: f, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("-files: %w", err)
	}
	prover := prompt.NewProver(source, prompt.ProverOptions{OnReport: func(r *prompt.ProofReport) {
		level := slog.LevelInfo
		if r.State == prompt.ProofFailed { // the alarm: requests ask the engine from now on
			level = slog.LevelError
		}
		logger.Log(context.Background(), level, "prompts compared with an engine", "report", r.String())
	}})
	e := &encoder{Encoder: prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{prover}}), source: source, prover: prover}
	e.options = []kvsteer.Option{kvsteer.WithEncoder(e.Encoder)}
	return e, nil
}

// Close closes what newEncoder opened.
func (e *encoder) Close() error {
	if e.Encoder == nil {
		return nil
	}
	return errors.Join(e.Encoder.Close(), e.prover.Close(), e.source.Close())
}
