#!/bin/sh
# Builds the native library that kvcache/hftok links (libtokenizers.a, Hugging
# Face's Rust tokenizers behind a C interface) from the source that comes with the
# Go module github.com/daulet/tokenizers, at the very version that
# kvcache/hftok/go.mod requires: the two check each other when they are linked.
#
#   scripts/hftok-lib.sh          builds it unless it is there, prints the CGO_LDFLAGS to link it with
#   scripts/hftok-lib.sh have     builds nothing: prints the same, or fails if it is not there
#
# It goes to the user's cache, never into the checkout. Needs cargo (Rust 1.74 or
# later), a C compiler, and the registries of Go and Rust; takes some minutes.
set -eu
cd "$(dirname "$0")/../kvcache/hftok"
module=github.com/daulet/tokenizers
go=${GO:-go}
version=$(sed -n "s|^[[:space:]]*\(require \)\{0,1\}$module \(v[^ ]*\).*|\2|p" go.mod)
dest=${XDG_CACHE_HOME:-$HOME/.cache}/kvsteer/hftok/$version
lib=$dest/libtokenizers.a

if [ ! -s "$lib" ]; then
	[ "${1:-}" != have ] || exit 1
	command -v cargo >/dev/null 2>&1 || {
		cat >&2 <<END
hftok-lib: cargo, the builder of Rust programs, is needed to build libtokenizers.a.
  Debian 13, Ubuntu 24.04 and later:  apt-get install cargo
  Fedora:                             dnf install cargo
  macOS:                              brew install rust
  elsewhere:                          rustup, Rust's own installer (its site says how)
Then run this again. Without the library, build with CGO_ENABLED=0: kvcache/hftok
then reports errors.ErrUnsupported, and all the rest of KVSteer works.
END
		exit 1
	}
	mkdir -p "$dest"
	work=$(mktemp -d "$dest/build.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	echo "hftok-lib: building $module $version, once, into $dest" >&2
	# What of stdout is not the flags goes to stderr: callers read the flags.
	GOWORK=off "$go" mod download "$module" >&2
	source=$(GOWORK=off "$go" list -m -f '{{.Dir}}' "$module")
	# The module cache is read-only, and cargo writes beside what it builds.
	mkdir "$work/crates"
	cp "$source/Cargo.toml" "$source/Cargo.lock" "$work"
	cp -R "$source/crates/tokenizers" "$work/crates"
	chmod -R u+w "$work"
	manifest=$work/crates/tokenizers/Cargo.toml
	# The manifest takes tiktoken-rs from a git repository at a state that was never
	# released. The next release has the same interface, comes from the registry with
	# a checksum, and serves only tiktoken files, which kvcache/hftok doesn't load.
	# Benchmarks and the WebAssembly build are left out with what they need.
	sed -e 's|^tiktoken-rs = .*|tiktoken-rs = "=0.9.1"|' -e '/^\[dev-dependencies\]/,$d' "$manifest" >"$work/manifest"
	mv "$work/manifest" "$manifest"
	sed -e '/crates\/tokenizers-wasm/d' "$work/Cargo.toml" >"$work/manifest"
	mv "$work/manifest" "$work/Cargo.toml"
	# A panic while a file is read would end the process, where one while a text is
	# encoded is caught: it becomes an error as well.
	call='Tokenizer::from_bytes(bytes_slice)'
	caught='std::panic::catch_unwind(|| Tokenizer::from_bytes(bytes_slice)).unwrap_or_else(|_| Err("the library panicked".into()))'
	sed -e "s/match $call {/match $caught {/" "$work/crates/tokenizers/src/lib.rs" >"$work/lib.rs"
	grep -q 'catch_unwind.*from_bytes' "$work/lib.rs" || {
		echo "hftok-lib: $module $version loads files in another way than this script knows" >&2
		exit 1
	}
	mv "$work/lib.rs" "$work/crates/tokenizers/src/lib.rs"
	(cd "$work" && CARGO_TARGET_DIR=$work/target cargo build --quiet --release -p tokenizers-ffi) >&2
	# Under another name first: what has the library's name is complete.
	mv "$work/target/release/libtokenizers_ffi.a" "$lib.part"
	mv "$lib.part" "$lib"
	rm -rf "$work"
	trap - EXIT
fi
printf '%s\n' "-L$dest"
