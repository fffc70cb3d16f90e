// Command compare encodes texts with kvcache/prompt/tokenizer and with the Rust tokenizers,
// and counts the differences.
//
//	go run ./internal/e2e/tokenizer/compare -python PYTHON -n 1000000 -long 60 [NAME...]
//	go run ./internal/e2e/tokenizer/compare -python PYTHON -variants kvcache/prompt/tokenizer/testdata [NAME...]
//	go run ./internal/e2e/tokenizer/compare -python PYTHON -variants kvcache/prompt/tokenizer/testdata -patterns 500
//	go run ./internal/e2e/tokenizer/compare -python PYTHON -components 500 -seed 7
//
// The first form compares real tokenizers: a NAME is a folder of the cache that
// scripts/tokenizer-files.sh fills, or a path of a tokenizer.json; without any, the six
// families, and some tokenizers of the fourth form. The second compares the small ones that variants.json describes, the third
// tokenizers that split by random patterns, the fourth tokenizers with components of all
// kinds at random. Needs Python with the package tokenizers. It
// exits with 1 if anything differs; a text that we refuse and Rust doesn't counts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/corpus"
	"github.com/kvsteer/kvsteer/internal/e2e/tokenizer/oracle"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer"
)

var families = []string{"qwen3", "llama3_1", "deepseek_v3", "gptoss", "gemma3", "llama2"}

type options struct {
	python, script string
	n, long, size  int
	seed           uint64
	show           int
	variants       string
	patterns       int
	components     int
	golden         *golden
}

// subject is a tokenizer under test.
type subject struct{ name, file string }

func main() {
	var o options
	flag.StringVar(&o.python, "python", "python3", "a Python that has the package tokenizers")
	flag.StringVar(&o.script, "script", "internal/e2e/tokenizer/oracle.py", "the oracle")
	flag.IntVar(&o.n, "n", 20000, "short texts for each tokenizer")
	flag.IntVar(&o.long, "long", 10, "long texts for each tokenizer, of 100 kB to -size")
	flag.IntVar(&o.size, "size", 1<<20, "bytes of the longest texts")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the texts")
	flag.IntVar(&o.show, "show", 5, "differences to print for each tokenizer")
	flag.StringVar(&o.variants, "variants", "", "a folder with variants.json: compare these instead")
	flag.IntVar(&o.patterns, "patterns", 0, "with -variants: compare so many random patterns instead")
	flag.IntVar(&o.components, "components", 0, "compare so many tokenizers of random components instead")
	file := flag.String("golden", "", "write the texts and what the Rust code makes of them to this file")
	flag.Parse()
	if *file != "" {
		o.golden = &golden{path: *file}
	}
	if err := run(o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options, names []string) (err error) {
	tmp, err := os.MkdirTemp("", "tokenizers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if o.components > 0 {
		return components(os.Stdout, o, tmp)
	}
	if len(names) == 0 && o.variants == "" {
		with := o
		with.components = componentsByDefault
		defer func() { err = errors.Join(err, components(os.Stdout, with, tmp)) }()
	}
	subjects, err := list(o, names, tmp)
	if err != nil {
		return err
	}
	bad := 0
	for _, s := range subjects {
		differ, err := compare(os.Stdout, s, o)
		if err != nil {
			fmt.Printf("%-12s %v\n", s.name, err)
		}
		if differ > 0 || err != nil {
			bad++
		}
	}
	if err := o.golden.write(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d tokenizers differ", bad, len(subjects))
	}
	return nil
}

// list finds the tokenizers to compare; variants are written to a temporary folder.
func list(o options, names []string, tmp string) ([]subject, error) {
	if o.variants != "" {
		return variants(o, names, tmp)
	}
	if len(names) == 0 {
		names = families
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	out := make([]subject, 0, len(names))
	for _, n := range names {
		s := subject{n, n}
		if !strings.HasSuffix(n, ".json") {
			s.file = filepath.Join(cache, "kvsteer", "tokenizers", n, "tokenizer.json")
		}
		out = append(out, s)
	}
	return out, nil
}

func variants(o options, names []string, tmp string) (out []subject, err error) {
	var all []corpus.Variant
	if o.patterns > 0 {
		all, err = corpus.New(o.seed, nil, nil).Patterns(o.variants, o.patterns)
	} else {
		all, err = corpus.Variants(o.variants)
	}
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if len(names) > 0 && !slices.Contains(names, v.Name) {
			continue
		}
		s := subject{v.Name, filepath.Join(tmp, v.Name+".json")}
		if err := os.WriteFile(s.file, v.File, 0o600); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// tally counts what was compared.
type tally struct {
	texts, bytes, ids       int
	differ, failed, refused int
	ours                    time.Duration
}

func compare(out io.Writer, s subject, o options) (differ int, err error) {
	name, file := s.name, s.file
	data, err := os.ReadFile(file) //nolint:gosec // a tool of tests reads what it is told to
	if err != nil {
		return 0, fmt.Errorf("%w (run scripts/tokenizer-files.sh)", err)
	}
	t, err := tokenizer.Load(data, tokenizer.Options{})
	if o.patterns > 0 && errors.Is(err, tokenizer.ErrUnsupported) {
		fmt.Fprintf(out, "%-12s %v\n", name, err)
		return 0, nil // most random patterns have something that is refused
	}
	if err != nil {
		return 0, err
	}
	rust, err := oracle.Start(o.python, o.script, file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rust.Close()) }()
	special, words, err := corpus.Vocabulary(data)
	if err != nil {
		return 0, err
	}
	src := corpus.New(o.seed, special, words)
	begin := time.Now()
	var short, long tally
	const frame = 2000
	for done := 0; done < o.n; done += frame {
		items := make([]oracle.Item, min(frame, o.n-done))
		for i := range items {
			items[i] = oracle.Item{Text: src.Text(), Special: i%2 == 1}
			if o.patterns > 0 {
				items[i].Text = src.Short()
			}
		}
		if err := short.add(out, t, rust, items, o, name); err != nil {
			return 0, err
		}
	}
	for i := range o.long {
		const least = 100_000
		size := least + (o.size-least)*i/max(1, o.long-1)
		if err := long.add(out, t, rust, []oracle.Item{{Text: src.Long(size), Special: i%2 == 1}}, o, name); err != nil {
			return 0, err
		}
	}
	fmt.Fprintf(out, "%-12s tokenizers %s seed %d: short %s; long %s; %.0f s\n",
		name, rust.Version, o.seed, &short, &long, time.Since(begin).Seconds())
	return short.differ + long.differ, nil
}

func (c *tally) String() string {
	return fmt.Sprintf("%d texts, %.1f MB, %d ids: %d differ, Rust failed %d, refused %d, ours %.1f MB/s",
		c.texts, float64(c.bytes)/1e6, c.ids, c.differ, c.failed, c.refused, float64(c.bytes)/1e6/c.ours.Seconds())
}

func (c *tally) add(out io.Writer, t *tokenizer.Tokenizer, rust *oracle.Oracle, items []oracle.Item, o options, name string) error {
	want, err := rust.Ask(items)
	if err != nil {
		return err
	}
	o.golden.add(name, items, want)
	var ids []uint32
	for i, x := range items {
		start := time.Now()
		ids, err = t.Encode(ids[:0], x.Text, x.Special)
		c.ours += time.Since(start)
		c.texts++
		c.bytes += len(x.Text)
		switch {
		case want[i] == nil:
			c.failed++
			continue
		case err != nil:
			c.refused++
			if o.components > 0 && errors.Is(err, tokenizer.ErrTooComplex) {
				continue // of random patterns some are
			}
		default:
		}
		c.ids += len(want[i])
		if err == nil && slices.Equal(ids, want[i]) {
			continue
		}
		if c.differ++; c.differ <= o.show {
			const most = 300
			fmt.Fprintf(out, "text %+q special=%v\n  want %v\n  got  %v %v\n", x.Text[:min(most, len(x.Text))], x.Special,
				want[i][:min(most, len(want[i]))], ids[:min(most, len(ids))], err)
		}
	}
	return nil
}
