package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/corpus"
	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/oracle"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer"
)

const (
	// textsEach are compared with each random tokenizer.
	textsEach = 60
	// componentsByDefault take some 20 seconds on an idle machine.
	componentsByDefault = 1000
	// trained is where the tokenizers are that the random ones are made of.
	trained = "kvcache/prompt/tokenizer/testdata"
)

// components compares tokenizers that are put together at random. Those that are refused
// here don't count, nor do those that the Rust code refuses.
func components(out io.Writer, o options, tmp string) (err error) {
	src := corpus.New(o.seed, nil, nil)
	all, err := src.Components(trained, o.components)
	if err != nil {
		return err
	}
	rust, err := oracle.Start(o.python, o.script)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rust.Close()) }()
	begin := time.Now()
	var c tally
	refused, theirs := 0, 0
	for _, v := range all {
		t, loadErr := tokenizer.Load(v.File, tokenizer.Options{})
		if loadErr != nil {
			refused++
			continue
		}
		file := filepath.Join(tmp, "tokenizer.json")
		if writeErr := os.WriteFile(file, v.File, 0o600); writeErr != nil {
			return writeErr
		}
		if err = rust.Load(file); errors.Is(err, oracle.ErrRefused) {
			theirs++
			continue
		}
		items := make([]oracle.Item, textsEach)
		for i := range items {
			items[i] = oracle.Item{Text: src.Atoms(), Special: i%2 == 1}
			if i%4 == 0 {
				items[i].Text = src.Short()
			}
		}
		before := c.differ
		if err == nil {
			err = c.add(out, t, rust, items, o, v.Name)
		}
		if err != nil {
			return err
		}
		if c.differ > before {
			kept := filepath.Join(os.TempDir(), fmt.Sprintf("differs-%d-%s.json", o.seed, v.Name))
			fmt.Fprintf(out, "%s: %d of %d texts differ; the file is kept as %s\n", v.Name, c.differ-before, textsEach, kept)
			if keepErr := os.WriteFile(kept, v.File, 0o600); keepErr != nil {
				return keepErr
			}
		}
	}
	fmt.Fprintf(out, "components   tokenizers %s seed %d: %d random tokenizers, %d refused here, %d by Rust alone; %s; %.0f s\n",
		rust.Version, o.seed, len(all), refused, theirs, &c, time.Since(begin).Seconds())
	if c.differ > 0 {
		return fmt.Errorf("%d texts differ", c.differ)
	}
	return nil
}
