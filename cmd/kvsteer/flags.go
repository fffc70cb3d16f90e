package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// parse parses the arguments of a command, which is called as its flags are. Unless it
// reports ok the command is over, with the exit code: whoever asked for help has got it, and
// who made a mistake the one line about that, which a page of usage would push out of sight.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer) (code int, ok bool) {
	usage := flags.Usage
	flags.Usage = func() {}
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	flags.Usage = usage
	flags.SetOutput(stderr)
	switch {
	case err == nil:
		return exitOK, true
	case errors.Is(err, flag.ErrHelp):
		usage()
		return exitOK, false
	default:
		fmt.Fprintf(stderr, "kvsteer %s: %v\nsee kvsteer %[1]s -h\n", flags.Name(), err)
		return exitUsage, false
	}
}
