package main

import (
	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/corpus"
	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/oracle"
)

// golden gathers what the Rust code made of texts, for tests that run without it.
type golden struct {
	path    string
	records []corpus.Golden
}

func (g *golden) add(name string, items []oracle.Item, want [][]uint32) {
	if g == nil {
		return
	}
	for i, x := range items {
		if want[i] != nil {
			g.records = append(g.records, corpus.Golden{Tokenizer: name, Text: x.Text, Special: x.Special, IDs: want[i]})
		}
	}
}

func (g *golden) write() error {
	if g == nil {
		return nil
	}
	return corpus.WriteGoldens(g.path, g.records)
}
