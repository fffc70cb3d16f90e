#!/bin/sh
# Releases every module of the repository that users import at one version.
#
#   scripts/release.sh v0.1.0            shows what would be done, in a copy
#   scripts/release.sh -go v0.1.0        does it here: one commit, one tag a module; pushes nothing
#
# Between releases a nested module reaches the root by `replace => ../..`, which
# `go run module/cmd@version` refuses. The commit that is tagged has no replace
# and requires its sisters at the version released. Tags are prefixed with the
# module's folder, as Go wants them. Push all of them at once, and return to
# development with `git revert` of the release commit.
set -eu

usage() {
	sed -n 's/^# \{0,1\}//; 2,5p' "$0" >&2
	exit 2
}

here=false
if [ "${1:-}" = -go ]; then
	here=true
	shift
fi
[ $# -eq 1 ] || usage
version=$1
printf '%s\n' "$version" | grep -Eq '^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$' || {
	echo "release: $version is not a version such as v0.1.0" >&2
	exit 2
}

cd "$(dirname "$0")/.."
export GOWORK=off
if [ "$here" = true ]; then
	[ -z "$(git status --porcelain)" ] || {
		echo 'release: the checkout is not clean' >&2
		exit 1
	}
else
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	git clone -q . "$copy/checkout"
	cd "$copy/checkout"
	# A clone takes the author's name from the machine, which may have none.
	git config user.name release
	git config user.email release@invalid
fi

root=$(go list -m)
modules=$(scripts/modules.sh | grep -v '^internal/') # those nobody imports
tag_of() { [ "$1" = . ] && echo "$version" || echo "$1/$version"; }

for m in $modules; do
	if git rev-parse -q --verify "refs/tags/$(tag_of "$m")" >/dev/null; then
		echo "release: the tag $(tag_of "$m") exists" >&2
		exit 1
	fi
done
grep -q "^## $version\b" CHANGELOG.md || {
	echo "release: CHANGELOG.md has no section \"## $version\"" >&2
	[ "$here" = false ] || exit 1
}

for m in $modules; do
	(
		cd "$m"
		# Modules of this repository that this one requires, and their replacements.
		ours=$(go mod edit -json | sed -n 's|.*"Path": "\('"$root"'[^"]*\)".*|\1|p' | sort -u)
		self=$(go list -m)
		for o in $ours; do
			[ "$o" = "$self" ] && continue
			go mod edit -dropreplace "$o" -require "$o@$version"
		done
		left=$(go mod edit -json | sed -n '/"Replace": \[/,/\]/s/.*"Path": "\([^"]*\)".*/\1/p')
		[ -z "$left" ] || {
			printf 'release: %s still replaces:\n%s\n' "$m" "$left" >&2
			exit 1
		}
	)
done

printf '%s\n' "$modules" | sed 's|$|/go.mod|' | xargs git add --
if git diff --cached --quiet; then
	echo 'no go.mod had to change'
else
	git commit -q -m "Release $version: modules require each other at the version that is tagged"
fi
for m in $modules; do
	git tag -a "$(tag_of "$m")" -m "$root $(tag_of "$m")"
done

git --no-pager show --stat --format='%h %s' HEAD
echo "tags: $(git tag --points-at HEAD | tr '\n' ' ')"
if [ "$here" = true ]; then
	echo "Nothing is pushed. To publish: git push --atomic origin HEAD $(git tag --points-at HEAD | tr '\n' ' ')"
	echo 'Then, to go on developing: git revert HEAD'
else
	echo 'This was a rehearsal in a copy that is gone; -go does it here.'
fi
