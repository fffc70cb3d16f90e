package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/replay"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/file"
)

const replayUsage = `usage: kvsteer replay -log FILE [flags]

Decides the requests of a decision log (package record) again, by another policy, or
with another predictor, and says what would have been different: routes, rules,
rejections, models, predicted times to first token, cost. What it can't know it lists,
with counts. docs/replay.md explains every figure.

A policy is a file or a directory of policies, or "default" or "round-robin". Without
-policy the log must be one of the default policy.

A predictor is a file with the state of one (kvsteer.NewPredictor, MarshalBinary), or
"default", one that has learned nothing. Without -predictor predictions are as
recorded.

It exits with 0 whatever differs, with 1 if the log or anything else can't be read.

`

// replaying is what the flags of kvsteer replay say.
type replaying struct {
	logs                      []string
	policy, predictor, prices string
	learn, json               bool
	top                       int
}

func (o *replaying) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, replayUsage, "flags:\n")
		f.PrintDefaults()
	}
	f.Func("log", "`file` to replay, \"-\" for standard input; give it several times for the files of one log, the oldest first",
		func(name string) error {
			o.logs = append(o.logs, name)
			return nil
		})
	f.StringVar(&o.policy, "policy", "", "the policy to decide by: a `file`, a directory, default or round-robin")
	f.StringVar(&o.predictor, "predictor", "", "the predictor to predict by: a `file` with its state, or default")
	f.BoolVar(&o.learn, "learn", false, "let the predictor observe the recorded times to first token as it goes")
	f.StringVar(&o.prices, "prices", "", "`file` with prices by model, in the format of model_prices_and_context_window.json")
	f.IntVar(&o.top, "top", 5, "tell so many of the decisions that differ most")
	f.BoolVar(&o.json, "json", false, "print JSON instead of tables")
	return f
}

// runReplay is the command.
func runReplay(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o replaying
	f := o.flags(stderr)
	if code, ok := parse(f, args, stderr); !ok {
		return code
	}
	usage := ""
	switch {
	case f.NArg() > 0:
		usage = fmt.Sprintf("unexpected argument %q; logs are named with -log, and flags go before anything else", f.Arg(0))
	case len(o.logs) == 0:
		usage = "name a decision log with -log"
	case o.top < 0:
		usage = "-top is negative"
	case o.learn && o.predictor == "":
		usage = "-learn needs a -predictor that learns"
	}
	if usage != "" {
		fmt.Fprintf(stderr, "kvsteer replay: %s\n", usage)
		return exitUsage
	}
	if err := o.run(ctx, stdout); err != nil {
		if errors.Is(err, replay.ErrPolicyNeeded) {
			err = fmt.Errorf("%w; name its policies with -policy, or give -policy default to see what that would have done", err)
		}
		fmt.Fprintf(stderr, "kvsteer replay: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func (o *replaying) run(ctx context.Context, stdout io.Writer) error {
	c := replay.Config{
		PolicyName: "the default, as recorded", PredictorName: "as recorded",
		Learn: o.learn, Top: o.top,
	}
	var err error
	if c.Policy, err = policyNamed(o.policy); err != nil {
		return fmt.Errorf("the policy: %w", err)
	}
	if o.policy != "" {
		c.PolicyName = o.policy
	}
	if c.Predictor, err = predictorNamed(o.predictor); err != nil {
		return fmt.Errorf("the predictor: %w", err)
	}
	if o.predictor != "" {
		c.PredictorName = o.predictor
		if o.learn {
			c.PredictorName += ", learning from the log"
		}
	}
	if o.prices != "" {
		if err = opened(o.prices, func(in io.Reader) error {
			c.Prices, err = replay.ReadPrices(in)
			return err
		}); err != nil {
			return fmt.Errorf("the prices: %s: %w", o.prices, err)
		}
	}
	r := replay.New(c)
	for _, name := range o.logs {
		if err := opened(name, func(in io.Reader) error { return r.Read(name, interruptible{ctx, in}) }); err != nil {
			return err
		}
	}
	report := r.Report()
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	out := bufio.NewWriter(stdout)
	return errors.Join(report.Print(out), out.Flush())
}

// interruptible reads until its context ends.
type interruptible struct {
	ctx context.Context //nolint:containedctx // io.Reader has no place for it
	in  io.Reader
}

func (r interruptible) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}

// opened calls fn with a file, or with standard input.
func opened(name string, fn func(io.Reader) error) error {
	if name == "-" {
		return fn(os.Stdin)
	}
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return fn(f)
}

// policyNamed returns nil for none.
func policyNamed(name string) (policy.Policy, error) {
	switch name {
	case "":
		return nil, nil //nolint:nilnil // none is none
	case "default":
		return policy.Default{}, nil
	case "round-robin":
		return new(policy.RoundRobin), nil
	}
	s, err := file.Open(name, file.Options{})
	if err != nil {
		return nil, err
	}
	set := s.Set()
	return set, s.Close() // nothing is to change while a log is read
}

// predictorNamed returns nil for none.
func predictorNamed(name string) (kvsteer.Predictor, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // none is none
	}
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	if name == "default" {
		return p, nil
	}
	state, err := os.ReadFile(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	return p, p.(interface{ UnmarshalBinary(data []byte) error }).UnmarshalBinary(state) //nolint:forcetypeassert // it says that it is one
}
