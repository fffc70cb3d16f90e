"""Renders templates as transformers does: oracle.py CONTEXTS < REQUESTS.

CONTEXTS is a file of variables, a JSON object a line. Each line of the standard
input is the path of a template, or a JSON object {"source": ..., "vars": ...} for
a single render. The answer is a line of JSON: for a path the SHA-256 of each
result or "!kind" of the error, with what vLLM reads off the template; for an
object the result itself.
"""
import datetime
import hashlib
import json
import resource
import sys
import warnings

import jinja2
import jinja2.meta
import transformers.utils.chat_template_utils as utils

warnings.simplefilter("ignore")
NOW = datetime.datetime(2026, 3, 5, 7, 8, 9, 123456)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


utils.datetime = Clock
try:
    import logging

    logging.disable(logging.CRITICAL)
    from vllm.renderers import hf
except ImportError:
    hf = None


def bound_memory(more):
    """A random template may ask for more memory than there is; the machine must survive it."""
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


bound_memory(4 << 30)


def kind(e):
    if type(e) is jinja2.exceptions.TemplateError:
        return "raised", str(e)
    if isinstance(e, jinja2.exceptions.TemplateSyntaxError):
        return "syntax", str(e)
    return type(e).__name__, str(e)


ENVIRONMENT = utils._cached_compile_jinja_template("").environment


def render(source, variables):
    try:
        template = ENVIRONMENT.from_string(source)
    except Exception as e:
        return None, ("compile", str(e))
    return render_compiled(template, variables)


def render_compiled(template, variables):
    try:
        return template.render(**variables), None
    except Exception as e:
        return None, kind(e)


def encode(text):
    return text.encode("utf-8", "surrogatepass")


def about(source):
    out = {}
    if hf is None:
        return out
    try:
        out["variables"] = sorted(hf._resolve_chat_template_kwargs(source))
    except Exception:
        out["variables"] = None
    hf._detect_content_format.cache_clear()
    out["format"] = hf._detect_content_format(source, default="string")
    return out


def file(path, contexts):
    with open(path, newline="") as f:
        source = f.read()
    out = about(source)
    try:
        template = utils._cached_compile_jinja_template(source)
    except Exception as e:
        out["results"] = ["!compile"] * len(contexts)
        out["error"] = str(e)
        return out
    results = []
    for variables in contexts:
        text, error = render_compiled(template, json.loads(variables))
        results.append("!" + error[0] if error else hashlib.sha256(encode(text)).hexdigest())
    out["results"] = results
    return out


def main():
    contexts = []
    if len(sys.argv) > 1:
        with open(sys.argv[1]) as f:
            contexts = [line.rstrip("\n") for line in f]
    for line in sys.stdin:
        line = line.rstrip("\n")
        if line.startswith("{"):
            request = json.loads(line)
            text, error = render(request["source"], json.loads(request["vars"]))
            answer = {"error": error} if error else {"text": encode(text).hex()}
        else:
            answer = file(line, contexts)
        print(json.dumps(answer), flush=True)


main()
