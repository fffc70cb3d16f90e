#!/usr/bin/env python3
"""Write a tiny Qwen3-shaped model directory that vLLM can serve with
--load-format dummy: a real Qwen3 tokenizer and chat template, and a config
whose weights are never read from disk.

Standard library only, so it runs with any python3.

usage: make_model.py --tokenizer DIR --out DIR [--hidden N] [--layers N] ...
"""
import argparse
import json
import os
import shutil
import sys


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--tokenizer", required=True,
                   help="directory with tokenizer.json and tokenizer_config.json")
    p.add_argument("--out", required=True, help="model directory to write")
    # The defaults make a 3,000-token prefill cost about 0.7 s on one core.
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--intermediate", type=int, default=1024)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--kv-heads", type=int, default=2)
    p.add_argument("--head-dim", type=int, default=64)
    p.add_argument("--max-position", type=int, default=32768)
    a = p.parse_args()

    for name in ("tokenizer.json", "tokenizer_config.json"):
        if not os.path.isfile(os.path.join(a.tokenizer, name)):
            print(f"make_model: {name} is missing in {a.tokenizer}; run setup.sh first",
                  file=sys.stderr)
            return 1

    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "head_dim": a.head_dim,
        "hidden_act": "silu",
        "hidden_size": a.hidden,
        "initializer_range": 0.02,
        "intermediate_size": a.intermediate,
        "max_position_embeddings": a.max_position,
        "max_window_layers": a.layers,
        "num_attention_heads": a.heads,
        "num_hidden_layers": a.layers,
        "num_key_value_heads": a.kv_heads,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": 151936,
    }
    generation = {
        "bos_token_id": 151643,
        "pad_token_id": 151643,
        "eos_token_id": [151645, 151643],
        "do_sample": False,
    }

    os.makedirs(a.out, exist_ok=True)

    def put(name: str, obj) -> None:
        tmp = os.path.join(a.out, name + ".tmp")
        with open(tmp, "w", encoding="utf-8") as f:
            json.dump(obj, f, indent=2)
            f.write("\n")
        os.replace(tmp, os.path.join(a.out, name))

    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(os.path.join(a.tokenizer, name), os.path.join(a.out, name))
    put("generation_config.json", generation)
    put("config.json", config)  # last: its presence means the directory is whole
    print(a.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
