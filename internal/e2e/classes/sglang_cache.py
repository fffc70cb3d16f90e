#!/usr/bin/env python3
"""Let SGLang's own prefix cache, not its engine, say what it keeps and forgets.

SGLang does not run without a GPU, but its radix tree is plain Python: it decides
which pages are shared, split, evicted and announced. It is driven here with
prompts; what it publishes is encoded by SGLang's own classes, and what it finds of
each prompt is what an engine would report as cached.

    python -m pip download --no-deps sglang==0.5.23 && python -m zipfile -e sglang-*.whl DIR
    CACHE/vllm/bin/python sglang_cache.py --package DIR --version 0.5.23 --out FILE

It needs torch and msgspec, which the environment of internal/e2e/vllm has.

Everything of SGLang that the tree itself does not need is replaced by stubs.
"""
import argparse
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import types
from array import array
from unittest.mock import MagicMock

import torch

REAL = {
    "sglang.srt.mem_cache.radix_cache", "sglang.srt.mem_cache.base_prefix_cache",
    "sglang.srt.mem_cache.cache_init_params", "sglang.srt.mem_cache.events", "sglang.srt.mem_cache.evict_policy",
    "sglang.srt.mem_cache.utils", "sglang.srt.mem_cache.unified_cache.component_type",
    "sglang.srt.disaggregation.kv_events",
}


class Stub(types.ModuleType):
    __path__: list = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads the modules of REAL from the package, and stubs of all its others."""

    def __init__(self, root):
        self.root = root

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in ("sglang", "triton", "orjson"):
            return None
        if name in REAL:
            return importlib.util.spec_from_file_location(name, os.path.join(self.root, *name.split(".")) + ".py")
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


def page_hashes(key, prior, page):
    """In place of SGLang's C++: the tree takes hashes as they are, and so do we."""
    out, digest = [], prior or b""
    for at in range(0, len(key), page):
        digest = hashlib.sha256(digest + repr(list(key[at:min(at + page, len(key))])).encode()).digest()
        out.append(digest.hex())
    return out


class Pool:
    """Memory that is never used: indices are counted up."""
    device = "cpu"

    def free(self, indices):
        pass

    def __getattr__(self, name):  # free_segments and the like
        return lambda *a, **k: None


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--package", required=True)
    p.add_argument("--version", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--page", type=int, default=16)
    a = p.parse_args()
    sys.meta_path.insert(0, Finder(a.package))

    import sglang.srt.mem_cache.cpp_utils.native_hash as native
    import sglang.srt.utils.common as common
    common.ceil_align = lambda x, n: -(-x // n) * n
    native.get_native_hash = page_hashes
    from sglang.srt.disaggregation.kv_events import KVEventBatch
    import sglang.srt.mem_cache.base_prefix_cache as base
    from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
    import msgspec

    encoder = msgspec.msgpack.Encoder()
    scenarios = []

    class Run:
        def __init__(self, name, eagle=False):
            self.steps, self.seq, self.eagle = [], 0, eagle
            self.cache = RadixCache.create_simulated(
                mock_allocator=Pool(), page_size=a.page, enable_kv_cache_events=True)
            self.cache.is_eagle = eagle
            scenarios.append({"scenario": name, "steps": self.steps})
            self.publish("start")

        def publish(self, what):
            events = self.cache.take_events()
            if not events:
                return
            batch = KVEventBatch(ts=1.8e9 + self.seq, events=events, attn_dp_rank=0)
            self.steps.append({"what": what, "port_rank": 0, "seq": self.seq,
                               "payload_hex": encoder.encode(batch).hex()})
            self.seq += 1

        def ask(self, what, tokens, salt=None, lora=None):
            """One prompt: what is found of it, what is kept of it, what is announced."""
            def key(ids):
                return RadixKey(array("q", ids), extra_key=lora, is_bigram=self.eagle, cache_salt=salt)
            found = self.cache.match_prefix(base.MatchPrefixParams(key=key(tokens[:-1])))
            cached = found.device_prefix_len
            step = {"what": what, "prompt": tokens, "model": lora or "tiny", "cached": cached}
            if salt:
                step["salt"] = salt
            self.steps.append(step)
            self.cache.insert(base.InsertParams(key=key(tokens), value=torch.arange(len(tokens))))
            self.publish(what)
            print(f"{what}: {len(tokens)} tokens, {cached} cached", file=sys.stderr)

        def evict(self, tokens):
            self.cache.evict(base.EvictParams(num_tokens=tokens))
            self.publish(f"evict {tokens}")

    def span(first, n):
        return list(range(first, first + n))

    r = Run("tree")
    r.ask("first", span(1000, 100))
    r.ask("the same", span(1000, 100))
    r.ask("whole pages only", span(1000, 96))
    r.ask("branches off within", span(1000, 40) + span(5000, 60))
    r.ask("branches off again", span(1000, 72) + span(6000, 60))
    r.ask("goes on", span(1000, 100) + span(7000, 60))
    r.evict(32)
    r.ask("the first again", span(1000, 100) + span(7000, 60))
    r.evict(64)
    r.ask("branches off within, again", span(1000, 40) + span(5000, 60))
    r.ask("another", span(20000, 130))
    r.cache.reset()
    r.publish("reset")
    r.ask("after the reset", span(1000, 100))
    r.ask("and again", span(1000, 100))

    r = Run("salts")
    for salt in (None, "a", "b", "a", None):
        r.ask(f"salt {salt}", span(1000, 100), salt=salt)
    r.ask("salt a goes on", span(1000, 100) + span(9000, 40), salt="a")

    r = Run("eagle", eagle=True)
    r.ask("first", span(1000, 100))
    r.ask("the same", span(1000, 100))
    r.ask("branches off", span(1000, 50) + span(5000, 60))
    r.ask("the first again", span(1000, 100) + span(7000, 30))
    r.ask("branches off at the end of a page", span(1000, 48) + span(8000, 60))

    with open(a.out, "w") as f:
        f.write('{"engine": "sglang", "version": %s, "block_size": %d, "scenarios": [' % (json.dumps(a.version), a.page))
        f.write(",".join('\n{"scenario": %s, "steps": [\n%s\n]}' % (
            json.dumps(s["scenario"]), ",\n".join(json.dumps(x) for x in s["steps"])) for s in scenarios))
        f.write("\n]}\n")


if __name__ == "__main__":
    main()
