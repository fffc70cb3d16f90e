#!/usr/bin/env python3
"""Record the KV events of features that a plain server does not show: adapters,
images, data-parallel ranks, offloading, hybrid models; or the plain stream of
another release.

    CACHE/vllm/bin/python features.py --model CACHE/model-tiny --out FILE SCENARIO...

Each scenario starts one server with worker.sh, sends a few prompts, and writes
its frames and the answers' cached-token counts into FILE, in the order in which
they came. KVSTEER_VLLM_PYTHON chooses the release; it needs that environment's
own Python only for the server, so that this script can run with any that has
msgspec, numpy, Pillow, pyzmq and safetensors.
"""
import argparse
import base64
import io
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import msgspec
import zmq

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK = 32


def log(*a):
    print("features:", *a, file=sys.stderr, flush=True)


class Server:
    """One server, its subscriptions (one for each rank) and what they brought."""

    def __init__(self, scenario, *flags, model, ranks=1, base=18290, options=(), env=None):
        self.scenario, self.port, self.ranks = scenario, base, ranks
        self.pub, self.rep = base + 10, base + 20
        self.steps, self.last = [], {}
        self.log = open(f"/tmp/kvsteer-features-{scenario}.log", "wb")
        cmd = [os.path.join(HERE, "worker.sh"), "--port", str(self.port), "--events-port", str(self.pub),
               "--replay-port", str(self.rep), "--topic", "kv", "--model", model, *options, "--", *flags]
        self.began = time.time()
        self.proc = subprocess.Popen(cmd, stdout=self.log, stderr=self.log, start_new_session=True,
                                     env={**os.environ, **(env or {})})
        self.ctx = zmq.Context()
        self.subs = []
        for rank in range(ranks):
            s = self.ctx.socket(zmq.SUB)
            s.setsockopt(zmq.SUBSCRIBE, b"")
            s.connect(f"tcp://127.0.0.1:{self.pub + rank}")
            self.subs.append(s)

    def __enter__(self):
        while True:
            if self.proc.poll() is not None:
                raise SystemExit(f"features: {self.scenario}: the server ended, see {self.log.name}")
            if time.time() - self.began > 300:
                self.__exit__()
                raise SystemExit(f"features: {self.scenario}: not ready after 300 s, see {self.log.name}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2).read()
                log(self.scenario, f"ready after {time.time() - self.began:.0f} s")
                return self
            except OSError:
                time.sleep(0.5)

    def __exit__(self, *_):
        self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(30)
        except subprocess.TimeoutExpired:
            self.proc.kill()  # its children die with it, see launch.py
            self.proc.wait()
        self.ctx.destroy(0)
        for port in (self.port, *(p + r for p in (self.pub, self.rep) for r in range(self.ranks))):
            for _ in range(100):
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", port)):
                        break
                time.sleep(0.1)

    def post(self, path, body, **headers):
        req = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                     {"content-type": "application/json", **headers})
        try:
            with urllib.request.urlopen(req, timeout=120) as f:
                raw = f.read()
        except urllib.error.HTTPError as e:
            raise SystemExit(f"features: {path}: {e.code} {e.read()[:500]!r}")
        return json.loads(raw) if raw else {}

    def complete(self, what, tokens, model="tiny", rank=None, salt=None):
        """A prompt of token ids; it records them with the answer's cached tokens."""
        body = {"model": model, "prompt": tokens, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
        more, headers = {}, {}
        if salt is not None:
            body["cache_salt"] = more["salt"] = salt
        if rank is not None:
            more["rank"], headers["X-data-parallel-rank"] = rank, str(rank)
        self.asked(what, tokens, self.post("/v1/completions", body, **headers), model, **more)

    def asked(self, what, tokens, got, model="tiny", **more):
        cached = (got["usage"].get("prompt_tokens_details") or {}).get("cached_tokens")
        self.steps.append({"what": what, "prompt": tokens, "model": model, "cached": cached, **more})
        log(self.scenario, what, "prompt", got["usage"]["prompt_tokens"], "cached", cached)
        self.drain(what)

    def drain(self, what, wait=1.0):
        for rank, sub in enumerate(self.subs):
            left = wait
            while sub.poll(left * 1000):
                topic, seq, payload = sub.recv_multipart()
                left = 0.3
                batch = msgspec.msgpack.decode(payload)
                self.steps.append({"what": what, "port_rank": rank, "topic": topic.decode(),
                                   "seq": struct.unpack(">Q", seq)[0], "payload_hex": payload.hex()})
                for e in batch[1]:
                    e = e if isinstance(e, dict) else {"array": e}
                    log("   ", rank, str({k: (f"{len(v)}x" if isinstance(v, list) and len(v) > 8 else v)
                                          for k, v in e.items()})[:400])

    def replay(self, what, rank=0, start=0):
        s = self.ctx.socket(zmq.DEALER)
        s.connect(f"tcp://127.0.0.1:{self.rep + rank}")
        s.send_multipart([b"", struct.pack(">Q", start)])
        n = 0
        while s.poll(5000):
            parts = s.recv_multipart()
            if parts[-1] == b"" or parts[-2] == b"\xff" * 8:
                self.steps.append({"what": what, "replayed": n, "replay_parts": len(parts),
                                   "multipart_hex": [p.hex() for p in parts]})
                log(self.scenario, what, n, "batches,", len(parts), "parts")
                break
            n += 1
        s.close(0)


def span(first, n):
    return list(range(first, first + n))


def plain(model, options, flags):
    """Stores, a parent, reuse, evictions, a clear, a replay."""
    with Server("plain", *flags, model=model, options=[*options, "--blocks", "12", "--max-model-len", "256"]) as s:
        s.complete("two blocks", span(1000, 70))
        s.complete("the same", span(1000, 70))
        s.complete("third block, with a parent", span(1000, 64) + span(2000, 40))
        s.complete("salted", span(1000, 70), salt="tenant-a")
        for i in range(3):
            s.complete(f"evicting {i}", span(20000 + 1000 * i, 100))
        s.post("/reset_prefix_cache", {})
        s.drain("reset")
        s.complete("after the reset", span(1000, 70))
        s.replay("replay from 0")
        return s.steps


def lora(model, options, flags):
    """Two adapters and the base model, the same tokens."""
    import numpy as np
    from safetensors.numpy import save_file
    with open(os.path.join(model, "config.json")) as f:
        c = json.load(f)
    with tempfile.TemporaryDirectory() as tmp:
        rank, rng = 8, np.random.default_rng(1)
        names = []
        for name in ("adapter-a", "adapter-b"):
            d = os.path.join(tmp, name)
            os.makedirs(d)
            out = c["num_attention_heads"] * c["head_dim"]
            weights = {}
            for i in range(c["num_hidden_layers"]):
                at = f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_"
                weights[at + "A.weight"] = rng.normal(0, .02, (rank, c["hidden_size"])).astype(np.float32)
                weights[at + "B.weight"] = rng.normal(0, .02, (out, rank)).astype(np.float32)
            save_file(weights, os.path.join(d, "adapter_model.safetensors"))
            with open(os.path.join(d, "adapter_config.json"), "w") as f:
                json.dump({"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 16,
                           "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj"],
                           "base_model_name_or_path": "tiny"}, f)
            names.append(f"{name}={d}")
        with Server("lora", "--enable-lora", "--max-lora-rank", "8", "--max-loras", "2", "--lora-modules", *names,
                    *flags, model=model, options=options) as s:
            for who in ("tiny", "adapter-a", "adapter-b", "adapter-a", "tiny"):
                s.complete(f"by {who}", span(1000, 100), model=who)
            s.complete("adapter-a goes on", span(1000, 100) + span(5000, 60), model="adapter-a")
            return s.steps


def dp(model, options, flags):
    """Two data-parallel ranks, each with a publisher."""
    with Server("dp", "--data-parallel-size", "2", *flags, model=model, ranks=2, options=options) as s:
        for rank in (0, 1, 1, 0):
            s.complete(f"to rank {rank}", span(1000 if rank else 3000, 100), rank=rank)
        s.complete("rank 1's prompt to rank 0", span(1000, 100), rank=0)
        s.replay("replay of rank 1", rank=1)
        return s.steps


def write_model(src, dst, config, **more):
    os.makedirs(dst)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(os.path.join(src, name), os.path.join(dst, name))
    for name, what in {"config.json": config, **more}.items():
        with open(os.path.join(dst, name), "w") as f:
            json.dump(what, f)


def gemma():
    """Gemma 3's shape: layers of full attention and of a sliding window."""
    return {
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "vocab_size": 151936,
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 4096, "sliding_window": 64,
        "sliding_window_pattern": 2, "query_pre_attn_scalar": 64, "rms_norm_eps": 1e-6, "rope_theta": 1000000,
        "layer_types": ["sliding_attention", "full_attention"] * 2, "torch_dtype": "bfloat16",
        "bos_token_id": 151643, "eos_token_id": 151645, "pad_token_id": 151643,
    }


def hybrid(model, options, flags):
    """What windows leave of prompts: all, half, none."""
    with tempfile.TemporaryDirectory() as tmp:
        write_model(model, os.path.join(tmp, "m"), gemma())
        with Server("hybrid", *flags, model=os.path.join(tmp, "m"),
                    options=[*options, "--max-model-len", "320", "--blocks", "24"]) as s:
            s.complete("eight blocks", span(1000, 270))
            s.complete("the same", span(1000, 270))
            s.complete("half of it, then another way", span(1000, 128) + span(7000, 60))
            for i in range(3):
                s.complete(f"evicting {i}", span(20000 + 1000 * i, 270))
            s.complete("the first again", span(1000, 270))
            s.post("/reset_prefix_cache", {})
            s.drain("reset")
            return s.steps


def windows(model, options, flags):
    """The same shape, with prompts that repeat, branch off and go on at random."""
    r = random.Random(5)
    roots, past = [span(1000 * (i + 1), 280) for i in range(3)], []
    with tempfile.TemporaryDirectory() as tmp:
        write_model(model, os.path.join(tmp, "m"), gemma())
        with Server("windows", *flags, model=os.path.join(tmp, "m"),
                    options=[*options, "--max-model-len", "320", "--blocks", "24"]) as s:
            for i in range(110):
                k = r.random()
                if past and k < 0.3:
                    p = r.choice(past[-6:])
                elif past and k < 0.6:
                    q = r.choice(past[-6:])
                    p = q[:r.randrange(20, len(q) + 1)] + span(r.randrange(10000, 60000), r.randrange(1, 90))
                else:
                    p = r.choice(roots)[:r.choice([64, 96, 128, 160, 161, 200, 223, 255, 256, 257, 270])]
                past.append(p[:290])
                s.complete(f"prompt {i}", past[-1])
                if i == 60:
                    s.post("/reset_prefix_cache", {})
                    s.drain("reset")
            return s.steps


def offload(model, options, flags, describe=False):
    """Blocks that go to host memory and come back from there."""
    cfg = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": {
        "spec_name": "HostOffloadingSpec", "spec_module_path": "kvsteer_offload",
        "cpu_bytes_to_use": 24 * BLOCK * 3072, "block_size": BLOCK, "self_describing_kv_events": describe}}
    with Server("offload-described" if describe else "offload", "--kv-transfer-config", json.dumps(cfg), *flags,
                model=model, options=[*options, "--blocks", "12", "--max-model-len", "256"]) as s:
        for i in range(4):
            s.complete(f"prompt {i}", span(1000 + 1000 * i, 100))
        s.complete("prompt 0 again", span(1000, 100))
        for i in range(4, 10):
            s.complete(f"prompt {i}", span(1000 + 1000 * i, 100))
        s.complete("a prompt that nobody has any more", span(2000, 100))
        return s.steps


def offload_described(model, options, flags):
    """The same with events that say what is in the blocks."""
    return offload(model, options, flags, describe=True)


def picture(colour):
    from PIL import Image
    out = io.BytesIO()
    Image.new("RGB", (128, 128), colour).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def images(model, options, flags):
    """LLaVA's shape: one text around three pictures."""
    with open(os.path.join(model, "config.json")) as f:
        text = json.load(f)
    text = {k: text[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
                                 "max_position_embeddings", "vocab_size", "rms_norm_eps", "rope_theta", "hidden_act",
                                 "torch_dtype", "tie_word_embeddings")}
    config = {
        "architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "image_token_index": 151655,
        "image_seq_length": 64, "projector_hidden_act": "gelu", "vision_feature_select_strategy": "default",
        "vision_feature_layer": -2, "torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645,
        "text_config": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, **text},
        "vision_config": {"model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 128,
                          "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 128, "patch_size": 16,
                          "projection_dim": 64},
    }
    processor = {
        "processor_class": "LlavaProcessor", "image_processor_type": "CLIPImageProcessorPil", "patch_size": 16,
        "num_additional_image_tokens": 1, "vision_feature_select_strategy": "default",
        "image_token": "<|image_pad|>",
    }
    sizes = {"size": {"shortest_edge": 128}, "crop_size": {"height": 128, "width": 128}}
    template = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}"
                "{% else %}{% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}{% else %}<|image_pad|>"
                "{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n")
    with tempfile.TemporaryDirectory() as tmp:
        d = os.path.join(tmp, "m")
        write_model(model, d, config, **{"processor_config.json": processor,
                                         "preprocessor_config.json": {**processor, **sizes}})
        with open(os.path.join(d, "chat_template.jinja"), "w") as f:
            f.write(template)
        with Server("images", "--chat-template", os.path.join(d, "chat_template.jinja"), *flags, model=d,
                    options=[*options, "--max-model-len", "1024"]) as s:
            words = "Please look at this picture with care and say what you see in it. " * 4
            for colour in ("red", "blue", "red"):
                body = {"model": "tiny", "max_tokens": 2, "temperature": 0, "messages": [{"role": "user", "content": [
                    {"type": "text", "text": words}, {"type": "image_url", "image_url": {"url": picture(colour)}},
                    {"type": "text", "text": words}]}]}
                got = s.post("/v1/chat/completions", {**body, "return_token_ids": True})
                s.asked(f"{colour} picture", got.get("prompt_token_ids"), got, picture=colour)
            return s.steps


SCENARIOS = {f.__name__: f for f in (plain, lora, dp, hybrid, windows, offload, offload_described, images)}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--model", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--version", default="0.32.0", help="what KVSTEER_VLLM_PYTHON has installed")
    p.add_argument("--worker", action="append", default=[], help="an option for worker.sh, such as --worker=--old")
    p.add_argument("--flag", action="append", default=[], help="a flag for vLLM")
    p.add_argument("scenario", nargs="+", choices=sorted(SCENARIOS))
    a = p.parse_args()
    done = {}
    if os.path.exists(a.out):
        with open(a.out) as f:
            done = {s["scenario"]: s["steps"] for s in json.load(f)["scenarios"]}
    for name in a.scenario:
        done[name] = SCENARIOS[name](a.model, a.worker, a.flag)
        with open(a.out, "w") as f:
            f.write('{"engine": "vllm", "version": %s, "block_size": %d, "scenarios": [' % (json.dumps(a.version), BLOCK))
            f.write(",".join('\n{"scenario": %s, "steps": [\n%s\n]}' % (
                json.dumps(k), ",\n".join(json.dumps(x) for x in v)) for k, v in done.items()))
            f.write("\n]}\n")


if __name__ == "__main__":
    main()
