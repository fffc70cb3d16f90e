"""The tokenizers that vLLM makes of model directories, as a filter: one JSON object a
line, {"dir": ..., "texts": [...]}, answered by {"ids": [[with, without special tokens] for each
text]} or {"error": ...}.
"""
import json
import logging
import os
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
logging.disable(logging.CRITICAL)

from vllm.tokenizers import get_tokenizer  # noqa: E402 (the settings above must come first)


def answer(job):
    try:
        t = get_tokenizer(job["dir"])
        return {"ids": [[t.encode(x, add_special_tokens=special) for special in (True, False)] for x in job["texts"]]}
    except BaseException as e:  # panics of Rust are not of class Exception
        return {"error": f"{type(e).__name__}: {e}"[:300]}


out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print must not come between
for line in sys.stdin:
    out.write(json.dumps(answer(json.loads(line))) + "\n")
    out.flush()
