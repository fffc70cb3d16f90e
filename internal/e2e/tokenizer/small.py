"""Trains the small tokenizers in kvcache/prompt/tokenizer/testdata.

    python small.py TEXTFILE... > /dev/null; writes bytes.json, chars.json, affix.json, shuffled.json

They are bases: variants.json beside them says with which normalizers, pre-tokenizers and
options each is tried. Needs the PyPI package tokenizers. The texts only decide which
merges there are.
"""
import json
import os
import random
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

OUT = os.path.join(os.path.dirname(__file__), "../../../kvcache/prompt/tokenizer/testdata")


def lines():
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as f:
            yield from f


def save(name, tok, change=lambda t: None):
    t = json.loads(tok.to_str())
    t["model"]["merges"] = [" ".join(m) if " " not in "".join(m) else m for m in t["model"]["merges"]]
    if any(isinstance(m, list) for m in t["model"]["merges"]):
        t["model"]["merges"] = [m if isinstance(m, list) else m.split(" ") for m in t["model"]["merges"]]
    change(t)
    with open(os.path.join(OUT, name), "w", encoding="utf-8") as f:
        json.dump(t, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def level():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.train_from_iterator(lines(), trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>", "<|user|>"]))
    return tok


def chars():
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tok.train_from_iterator(lines(), trainers.BpeTrainer(vocab_size=1100, special_tokens=special, max_token_length=12))

    def plain(t):  # byte tokens are of the vocabulary only
        t["added_tokens"] = t["added_tokens"][:3]

    return tok, plain


def affix():
    tok = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.train_from_iterator(lines(), trainers.BpeTrainer(
        vocab_size=700, special_tokens=["[UNK]", "[CLS]", "[SEP]"],
        continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    return tok


def shuffled():
    """Random merges over five letters, ranked at random: later merges come before those
    that make their parts."""
    r = random.Random(7)
    vocab = {c: i for i, c in enumerate("abcde")}
    tokens, merges = list(vocab), []
    while len(merges) < 400:
        a, b = r.choice(tokens), r.choice(tokens)
        if len(a + b) > 9 or (a, b) in merges:
            continue
        if a + b not in vocab:
            vocab[a + b] = len(vocab)
            tokens.append(a + b)
        merges.append((a, b))
    r.shuffle(merges)
    return Tokenizer(models.BPE(vocab=vocab, merges=merges))


save("bytes.json", level())
save("chars.json", *chars())
save("affix.json", affix())
save("shuffled.json", shuffled())


def holes(t):
    """Some bytes beyond ASCII have no token, so some characters are unknown after all."""
    t["model"]["vocab"] = {k: v for k, v in t["model"]["vocab"].items() if not (3 + 128 <= v < 259 and v % 3 == 0)}


save("holes.json", chars()[0], lambda t: (chars()[1](t), holes(t)))


def letters():
    """No merges; the last byte of a word has a token of its own, so ids show the words."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet + [c + "</w>" for c in alphabet])}
    return Tokenizer(models.BPE(vocab=vocab, merges=[], end_of_word_suffix="</w>"))


save("letters.json", letters())
