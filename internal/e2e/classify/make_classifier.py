"""Write a tiny Qwen2 sequence classifier that vLLM can serve: weights at random from a
seed, so that it is the same each time, and a real tokenizer. It knows nothing; what it
says of a text depends on the text and on nothing else, which is enough to compare.

usage: make_classifier.py --tokenizer DIR --out DIR [--labels a,b,c]
"""
import argparse
import os
import shutil
import sys

import torch
from transformers import Qwen2Config, Qwen2ForSequenceClassification


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--tokenizer", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--labels", default="chat,code,personal")
    a = p.parse_args()

    labels = a.labels.split(",")
    config = Qwen2Config(
        vocab_size=151936, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=1024,
        pad_token_id=151643, bos_token_id=151643, eos_token_id=151645, tie_word_embeddings=True,
        id2label=dict(enumerate(labels)), label2id={label: i for i, label in enumerate(labels)})
    torch.manual_seed(6)
    model = Qwen2ForSequenceClassification(config).float()
    # Transformers begins with heads so small that every class is as likely as another.
    torch.nn.init.normal_(model.score.weight, std=0.5)
    os.makedirs(a.out, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(os.path.join(a.tokenizer, name), os.path.join(a.out, name))
    model.save_pretrained(a.out)
    print(a.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
