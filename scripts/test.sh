#!/bin/sh
# Tests every module, whatever the one before came to, and sums up at the end:
# first the root module without cgo, as most users build it, then all modules
# under the race detector, the nested ones two at a time, since much of what they
# do is to wait for other programs. `test.sh race` does the second only.
set -u
cd "$(dirname "$0")/.."
go=${GO:-go}

# run FOLDER CGO_ENABLED ARGUMENT-OF-GO-TEST...: tests one module
run() {
	folder=$1 cgo=$2
	shift 2
	echo "== $folder: CGO_ENABLED=$cgo go test $*"
	(cd "$folder" && CGO_ENABLED=$cgo "$go" test "$@") 2>&1
}

# nested FOLDER: tests one nested module, and prints all of it at once. $results is a
# folder that holds what each module came to.
nested() {
	name=$(echo "$1" | tr / -)
	{
		if [ "$1" = kvcache/hftok ] && ! CGO_LDFLAGS=$(scripts/hftok-lib.sh have); then
			echo 'without its library (make hftok-lib):'
			run "$1" 0 -timeout 30m ./...
		else
			export CGO_LDFLAGS # the other modules link nothing by it
			run "$1" 1 -race -timeout 30m ./...
		fi
		echo $? >"$results/$name.status"
	} >"$results/$name.out"
	until mkdir "$results/printing" 2>/dev/null; do sleep 0.1; done
	cat "$results/$name.out"
	rmdir "$results/printing"
}

if [ "${1:-}" = nested ]; then
	nested "$2"
	exit 0
fi

results=$(mktemp -d) && trap 'rm -rf "$results"' EXIT
export results
echo 'Testing: first without cgo, then under the race detector. A package prints its line when it is through; the slowest take a minute or two.'
# What fails is repeated below; tee's status would hide that of go.
[ "${1:-}" = race ] || { run . 0 -timeout 30m ./...; echo $? >"$results/root-without-cgo.status"; } | tee "$results/root-without-cgo.out"
{ run . 1 -race -timeout 30m ./...; echo $? >"$results/root.status"; } | tee "$results/root.out"
scripts/modules.sh | grep -vx '\.' | xargs -n 1 -P 2 scripts/test.sh nested

echo
passed=0
failed=
for s in "$results"/*.status; do
	if [ "$(cat "$s")" = 0 ]; then
		passed=$((passed + 1))
	else
		failed="$failed${failed:+, }$(basename "$s" .status)"
	fi
done
due=$(scripts/modules.sh | wc -l)
[ "${1:-}" = race ] || due=$((due + 1))
[ "$(ls "$results" | grep -c '\.status$')" -eq "$due" ] || failed="$failed${failed:+, }not every module was tested"
if [ -n "$failed" ]; then
	echo 'What failed:'
	cat "$results"/*.out | grep -E '^(FAIL[[:space:]]+[^[:space:]]|[[:space:]]*--- FAIL:|panic: |WARNING: DATA RACE)' | sort -u
	echo "modules: $passed ok, failed: $failed"
	exit 1
fi
echo "modules: $passed ok, none failed"
