"""Writes template variables as JSON lines: contexts.py SEED COUNT.

What an engine would pass to a chat template: messages of all roles and shapes,
tools, documents, switches; realistic for the most part, wrong now and then so that
templates raise.
"""
import json
import random
import sys

WORDS = """the a model cache prefix weather Paris größer naïve 你好 世界 こんにちは привет שלום 🎉 👩‍💻 e\u0301 <b> & " ' \\ {{x}} {% if %}
0 1 42 3.14 -7 null true [INST] <|im_start|> <|im_end|> <think> </think> <s> </s> <tool_call> line\nbreak tab\there \r\n
  double  trailing\u00a0 \u200b \ufeff x=1;y=2 https://example.org/?a=b&c=d {"k":1} ```py``` #heading *star* _under_""".split(" ")
NAMES = ["get_weather", "search", "calc", "send_mail", "lookup_Überweisung", "a.b", "x"]


def text(r, n=12):
    kind = r.random()
    if kind < 0.06:
        return ""
    if kind < 0.10:
        return r.choice([" ", "\n", "  \n\n ", "\t"])
    words = [r.choice(WORDS) for _ in range(r.randint(1, n))]
    s = r.choice([" ", " ", " ", "\n", "\n\n"]).join(words)
    if r.random() < 0.12:
        s = "<think>\n" + s + "\n</think>\n\n" + r.choice(WORDS)
    if r.random() < 0.1:
        s = r.choice([" ", "\n"]) + s + r.choice([" ", "\n", ""])
    return s


def scalar(r):
    return r.choice([
        r.randint(-5, 100), 0, 1, 2**40, 2**70, 1.0, 0.1, 1e-7, 1e20, -2.5, True, False, None, "", text(r, 4), "5", [], {}])


def value(r, depth=2):
    if depth and r.random() < 0.3:
        return [value(r, depth - 1) for _ in range(r.randint(0, 3))]
    if depth and r.random() < 0.3:
        return {r.choice(["a", "b", "city", "items", "keys", "ключ", "n"]): value(r, depth - 1) for _ in range(r.randint(0, 3))}
    return scalar(r)


def schema(r, depth=2):
    kind = r.choice(["string", "integer", "number", "boolean", "array", "object", "string"])
    s = {"type": kind}
    if r.random() < 0.6:
        s["description"] = text(r, 5)
    if kind == "string" and r.random() < 0.3:
        s["enum"] = [r.choice(WORDS) for _ in range(r.randint(0, 3))]
    if r.random() < 0.1:
        s["default"] = scalar(r)
    if r.random() < 0.06:
        s["type"] = [kind, "null"]
    if r.random() < 0.05:
        s["nullable"] = True
    if r.random() < 0.06:
        del s["type"]
        s["anyOf"] = [{"type": "string"}, {"type": "integer"}]
    if r.random() < 0.04:
        s = {"$ref": "#/$defs/x"}
    if kind == "array" and depth:
        s["items"] = schema(r, depth - 1)
    if kind == "object" and depth:
        s.update(obj(r, depth - 1))
    return s


def obj(r, depth=2):
    props = {r.choice(["city", "unit", "q", "n", "items", "keys", "type", "läng", "opts", "required"]): schema(r, depth) for _ in range(r.randint(0, 3))}
    o = {"type": "object", "properties": props}
    if r.random() < 0.7:
        o["required"] = [k for k in props if r.random() < 0.6]
    if r.random() < 0.1:
        o["additionalProperties"] = False
    if r.random() < 0.05:
        o["$defs"] = {"x": {"type": "string"}}
    return o


def tool(r):
    f = {"name": r.choice(NAMES)}
    if r.random() < 0.9:
        f["description"] = text(r)
    elif r.random() < 0.5:
        f["description"] = None
    if r.random() < 0.9:
        f["parameters"] = obj(r)
    elif r.random() < 0.5:
        f["parameters"] = None
    if r.random() < 0.1:
        f["return"] = {"type": "string", "description": text(r, 3)}
    if r.random() < 0.05:
        f["strict"] = True
    if r.random() < 0.04:
        return f
    return {"type": "function", "function": f}


def call(r):
    args = {r.choice(["city", "unit", "q", "n", "items"]): value(r) for _ in range(r.randint(0, 3))}
    if r.random() < 0.25:
        args = json.dumps(args, ensure_ascii=r.random() < 0.5)
    elif r.random() < 0.03:
        args = r.choice([None, "", "{bad", [1], "null"])
    c = {"function": {"name": r.choice(NAMES), "arguments": args}}
    if r.random() < 0.8:
        c["type"] = "function"
    if r.random() < 0.8:
        c["id"] = r.choice(["call_abc123", "a1B2c3D4e", "x", "functions.search:0", "123456789"])
    if r.random() < 0.04:
        return c["function"]
    return c


def part(r):
    k = r.random()
    if k < 0.72:
        return {"type": "text", "text": text(r)}
    if k < 0.82:
        return {"type": "image"}
    if k < 0.87:
        return {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    if k < 0.90:
        return {"type": r.choice(["video", "audio", "input_audio", "document", "thinking"]), "thinking": text(r)}
    if k < 0.93:
        return {"text": text(r)}
    if k < 0.95:
        return {"type": "text"}
    return text(r)


def content(r):
    k = r.random()
    if k < 0.78:
        return text(r, 25)
    if k < 0.94:
        return [part(r) for _ in range(r.randint(0, 3))]
    if k < 0.97:
        return None
    return r.choice([5, 1.5, True, {"text": "x"}, {}, [[]], [None]])


def message(r, role):
    m = {"role": role}
    if r.random() < 0.98:
        m["content"] = content(r)
    if role == "assistant":
        if r.random() < 0.2:
            m["reasoning_content"] = text(r)
        if r.random() < 0.06:
            m["reasoning"] = text(r)
        if r.random() < 0.04:
            m["thinking"] = text(r)
        if r.random() < 0.3:
            m["tool_calls"] = [call(r) for _ in range(r.choice([0, 1, 1, 1, 2, 3]))]
            if r.random() < 0.6:
                m["content"] = r.choice(["", None, text(r)])
        elif r.random() < 0.05:
            m["tool_calls"] = None
        if r.random() < 0.03:
            m["prefix"] = True
    if role == "tool":
        if r.random() < 0.7:
            m["tool_call_id"] = r.choice(["call_abc123", "a1B2c3D4e", "x", "functions.search:0", "123456789"])
        if r.random() < 0.5:
            m["name"] = r.choice(NAMES)
        if r.random() < 0.1:
            m["content"] = value(r)
    if r.random() < 0.03:
        m["name"] = text(r, 2)
    if r.random() < 0.02:
        m["tools"] = [tool(r)]
    return m


def conversation(r):
    k = r.random()
    if k < 0.03:
        return []
    out = []
    if r.random() < 0.55:
        out.append(message(r, r.choice(["system", "system", "system", "developer"])))
    if k < 0.12:  # any order
        for _ in range(r.randint(1, 5)):
            out.append(message(r, r.choice(["user", "assistant", "tool", "system", "ipython", "function", "Weird", "model", "observation"])))
        return out
    for turn in range(r.choice([1, 1, 1, 2, 2, 3, 4])):
        out.append(message(r, "user"))
        if r.random() < 0.7:
            a = message(r, "assistant")
            out.append(a)
            if a.get("tool_calls"):
                for c in a["tool_calls"]:
                    t = message(r, "tool")
                    if isinstance(c, dict) and "id" in c and r.random() < 0.9:
                        t["tool_call_id"] = c["id"]
                    if r.random() < 0.95:
                        out.append(t)
                if r.random() < 0.7:
                    out.append(message(r, "assistant"))
    if out[-1]["role"] != "user" and r.random() < 0.4:
        out.append(message(r, "user"))
    return out


def simple(r):
    """A conversation that most templates accept: texts in turn."""
    out = [{"role": "system", "content": text(r)}] if r.random() < 0.4 else []
    for turn in range(r.randint(1, 4)):
        out.append({"role": "user", "content": text(r)})
        out.append({"role": "assistant", "content": text(r)})
    if r.random() < 0.8:
        out.pop()
    return out


def context(r):
    v = {"messages": simple(r) if r.random() < 0.35 else conversation(r)}
    if r.random() < 0.02:
        v["messages"] = r.choice([None, "x", 5, {}, [None], ["text"], [{"role": None}], [{}]])
    k = r.random()
    v["tools"] = None if k < 0.6 else [tool(r) for _ in range(r.choice([0, 1, 1, 2, 3]))]
    if r.random() < 0.02:
        del v["tools"]
    v["documents"] = None if r.random() < 0.93 else [
        {"title": text(r, 3), "text": text(r)} | ({"doc_id": 1} if r.random() < 0.3 else {}) for _ in range(r.randint(0, 2))]
    v["add_generation_prompt"] = r.random() < 0.7
    if r.random() < 0.03:
        del v["add_generation_prompt"]
    specials = r.choice([
        {"bos_token": "<s>", "eos_token": "</s>"},
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
        {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        {}, {"eos_token": ""},
        {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "image_token": "<image>"}])
    v.update(specials)
    for name, values, p in [
        ("enable_thinking", [True, False, None], 0.3), ("thinking", [True, False], 0.12), ("date_string", ["26 Jul 2024"], 0.1),
        ("reasoning_effort", ["low", "high", "none", None, 3], 0.15), ("thinking_budget", [0, 512, -1, "x"], 0.1),
        ("builtin_tools", [["brave_search", "code_interpreter"], []], 0.05), ("tools_in_user_message", [True, False], 0.1),
        ("custom_tools", [[{"name": "x"}]], 0.03), ("continue_final_message", [False, True], 0.1), ("model_identity", ["I am X"], 0.05),
        ("strftime_now", [None], 0.01), ("system_message", ["sys"], 0.03), ("clear_thinking", [True, False], 0.08),
        ("preserve_thinking", [True, False], 0.08), ("add_vision_id", [True, False], 0.08), ("controls", [{"length": "long"}], 0.05),
        ("today", ["2025-01-01"], 0.03), ("xml_tools", [["a"]], 0.03), ("python_tools", [["b"]], 0.03), ("citations", [True], 0.03),
        ("keep_past_thinking", [True], 0.05), ("add_default_system_prompt", [False, True], 0.05), ("safe_mode", [True], 0.03),
        ("truncate_history_thinking", [True, False], 0.05), ("name_user", ["u"], 0.02), ("chat_mode", [1], 0.02)]:
        if r.random() < p:
            v[name] = r.choice(values)
    return v


def main():
    r = random.Random(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        print(json.dumps(context(r), ensure_ascii=r.random() < 0.3))


if __name__ == "__main__":
    main()
