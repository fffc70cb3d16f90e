#!/bin/sh
# Tests every module, whatever the one before came to, and sums up at the end:
# first the root module without cgo, as most users build it, then all modules
# under the race detector. `test.sh race` does the second only.
set -u
cd "$(dirname "$0")/.."
go=${GO:-go}
all=$(mktemp) && trap 'rm -f "$all"' EXIT
passed=0
failed=

run() { # run NAME FOLDER ENVIRONMENT ARGUMENT-OF-GO-TEST...
	name=$1 folder=$2 cgo=$3
	shift 3
	echo "== $name: CGO_ENABLED=$cgo go test $*"
	# What fails is repeated below; tee's status would hide that of go.
	status=$({ { (cd "$folder" && CGO_ENABLED=$cgo "$go" test "$@") 2>&1; echo $? >&3; } | tee -a "$all" >&4; } 3>&1)
	if [ "$status" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed="$failed${failed:+, }$name"
	fi
}

exec 4>&1
echo 'Testing: first without cgo, then under the race detector. A package prints its line when it is through; the slowest take a minute or two.'
[ "${1:-}" = race ] || run 'root without cgo' . 0 -timeout 30m ./...
for m in $(scripts/modules.sh); do
	[ "$m" = . ] && name='root' || name=$m
	if [ "$m" = kvcache/hftok ]; then
		CGO_LDFLAGS=$(scripts/hftok-lib.sh have) || {
			run "$name without its library (make hftok-lib)" "$m" 0 -timeout 30m ./...
			continue
		}
		export CGO_LDFLAGS # the other modules link nothing by it
	fi
	run "$name" "$m" 1 -race -timeout 30m ./...
done

echo
if [ -n "$failed" ]; then
	echo 'What failed:'
	grep -E '^(FAIL[[:space:]]+[^[:space:]]|[[:space:]]*--- FAIL:|panic: |WARNING: DATA RACE)' "$all" | sort -u
	echo "modules: $passed ok, failed: $failed"
	exit 1
fi
echo "modules: $passed ok, none failed"
