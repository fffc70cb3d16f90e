// Command kvsteer holds the tools that go with the library. `kvsteer` alone
// lists them; each explains itself with -h.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1 // it ran and the answer is no, or it could not finish
	exitUsage  = 2 // it was called wrongly
)

// command is one subcommand. run gets the arguments behind its name and returns
// the exit code; what it has to say goes to stdout, what went wrong to stderr.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

// commands lists them in the order in which help shows them.
func commands() []command {
	return []command{
		{name: "check", summary: "check policies: mistakes, with their places, and what can never happen", run: runCheck},
		{name: "doctor", summary: "examine a fleet: what works, what does not, and what to do", run: runDoctor},
		{name: "predictor-eval", summary: "measure the latency predictor on recorded requests", run: predictorEval},
		{name: "replay", summary: "decide recorded requests again, by another policy or predictor", run: runReplay},
		{name: "simulate", summary: "compare routing rules on a model of a fleet", run: runSimulate},
		{name: "usage", summary: "add up usage records: what each tenant used, by day", run: runUsage},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := dispatch(ctx, commands(), os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func dispatch(ctx context.Context, table []command, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		help(stderr, table)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		help(stdout, table)
		return exitOK
	}
	for _, c := range table {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "kvsteer: no command %q\n\n", args[0])
	help(stderr, table)
	return exitUsage
}

func help(w io.Writer, table []command) {
	fmt.Fprint(w, "usage: kvsteer COMMAND [ARGUMENTS]\n\n")
	for _, c := range table {
		fmt.Fprintf(w, "  %-16s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\n`kvsteer COMMAND -h` explains a command.\n")
}
