#!/bin/sh
# Runs govulncheck ($1) in the current folder. A vulnerability fails; a database
# that can't be reached is said, and passes: it says nothing about our code.
set -u
out=$("$1" ./... 2>&1) && rc=0 || rc=$?
printf '%s\n' "$out"
[ "$rc" -eq 0 ] && exit 0
case $rc:$out in
1:*"govulncheck: fetching vulnerabilities: "*)
	echo "NOT CHECKED: the vulnerability database is out of reach from here; set GOVULNDB to a reachable copy."
	exit 0
	;;
esac
exit "$rc"
