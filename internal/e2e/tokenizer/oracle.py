"""The Rust tokenizers as a filter: texts in, token ids out.

    python oracle.py [tokenizer.json]

Reads frames from standard input: the number of texts as a little-endian uint32, then for
each its length, whether special tokens are to be added (one byte), and its UTF-8. Answers
each frame with, for each text, the number of ids and the ids; 0xFFFFFFFF if the library
raised an exception. The first answer, before any frame, is the library's version.
A frame of 0xFFFFFFFF texts has the length and the name of a file instead, which is loaded
for the frames after it; the answer is 0, or 1 if the library refuses the file.
Truncation and padding of the file are switched off, as engines do.
"""
import os
import struct
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers  # noqa: E402 (the setting above must come first)
from tokenizers import Tokenizer  # noqa: E402

FAILED = struct.pack("<I", 0xFFFFFFFF)


def pack(ids):
    return struct.pack(f"<{len(ids) + 1}I", len(ids), *ids)


def one(tok, text, special):
    try:
        return pack(tok.encode(text, add_special_tokens=special).ids)
    except BaseException:  # the library's panics aren't of class Exception
        return FAILED


def answer(tok, texts):
    out = []
    for special in (False, True):
        batch = [t for t, s in texts if s == special]
        try:
            ids = [pack(e.ids) for e in tok.encode_batch_fast(batch, add_special_tokens=special)]
        except BaseException:
            ids = [one(tok, t, special) for t in batch]
        out.append(iter(ids))
    return b"".join(next(out[s]) for _, s in texts)


def load(name):
    tok = Tokenizer.from_file(name)
    tok.no_truncation()
    tok.no_padding()
    return tok


def main():
    tok = load(sys.argv[1]) if len(sys.argv) > 1 else None
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    version = tokenizers.__version__.encode()
    stdout.write(struct.pack("<I", len(version)) + version)
    stdout.flush()
    while head := stdin.read(4):
        texts = []
        if head == FAILED:
            name = stdin.read(struct.unpack("<I", stdin.read(4))[0]).decode()
            try:
                tok, refused = load(name), 0
            except BaseException:  # as in one
                refused = 1
            stdout.write(struct.pack("<I", refused))
            stdout.flush()
            continue
        for _ in range(struct.unpack("<I", head)[0]):
            n, special = struct.unpack("<IB", stdin.read(5))
            texts.append((stdin.read(n).decode(), bool(special)))
        stdout.write(answer(tok, texts))
        stdout.flush()


main()
