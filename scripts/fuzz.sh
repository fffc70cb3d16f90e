#!/bin/sh
# Runs every fuzz target of the module in the current folder, one after the
# other, for $1 each (the -fuzztime of go test).
set -eu
time=$1
grep -rl --include='*_test.go' '^func Fuzz' . | sed 's|/[^/]*$||' | sort -u | while read -r dir; do
	[ "$(cd "$dir" && go list -m)" = "$(go list -m)" ] || continue # a nested module's turn comes
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go | sort -u | while read -r target; do
		echo "-- $dir $target"
		go test -run '^$' -fuzz "^$target\$" -fuzzminimizetime 10x -fuzztime "$time" "$dir" </dev/null
	done
done
