#!/usr/bin/env python3
"""Write model directories that vLLM's render server can serve without weights.

usage: make_models.py real TOKENIZERS OUT
       make_models.py small OUT

real: one directory for each family in TOKENIZERS (see scripts/tokenizer-files.sh),
with its real tokenizer and chat template and a config.json of minimal size; and
two more that print as JSON all that a template gets to see.
small: tokenizers of a few hundred tokens, trained here on text written here, one
for each tokenizer class of transformers that package local reproduces, with chat
templates written here. They are what the package's own tests use.
"""
import json
import os
import shutil
import sys

COMMON = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32, "rms_norm_eps": 1e-06, "torch_dtype": "bfloat16",
    "hidden_act": "silu", "max_position_embeddings": 32768, "rope_theta": 10000.0, "tie_word_embeddings": True,
}
DEEPSEEK = {
    "kv_lora_rank": 16, "q_lora_rank": None, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 32,
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "moe_layer_freq": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "topk_method": "noaux_tc",
    "norm_topk_prob": True, "routed_scaling_factor": 1.0, "scoring_func": "sigmoid", "num_key_value_heads": 2,
}
GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 32, "sliding_window": 512,
         "layer_types": ["full_attention"]}
TYPES = {
    "qwen3": ("qwen3", "Qwen3ForCausalLM", {}),
    "llama": ("llama", "LlamaForCausalLM", {}),
    "deepseek_v3": ("deepseek_v3", "DeepseekV3ForCausalLM", DEEPSEEK),
    "gemma3_text": ("gemma3_text", "Gemma3ForCausalLM", GEMMA),
}
REAL = {"qwen3": "qwen3", "llama3_1": "llama", "deepseek_v3": "deepseek_v3", "gemma3": "gemma3_text", "llama2": "llama"}

# Everything that a template gets, so that a difference in the conversation shows
# where a real template would hide it.
SHOW = """{{ messages|tojson }}
{{ tools|default(none)|tojson }}
{{ documents|default(none)|tojson }} {{ add_generation_prompt|tojson }} {{ continue_final_message|default('U')|tojson }}
{{ reasoning_effort|default('U')|tojson }} {{ enable_thinking|default('U')|tojson }} {{ topic|default('U')|tojson }}
{{ bos_token|default('U')|tojson }} {{ eos_token|default('U')|tojson }} {{ pad_token|default('U')|tojson }} {{ unk_token|default('U')|tojson }}
{%- for m in messages %} {{ m.reasoning_content is defined }}{% endfor %}"""
SHOW_PARTS = SHOW + "{% for m in messages %}{% if m.content is not string %}{% for part in m.content %}{{ part.type }}{% endfor %}{% endif %}{% endfor %}"

# A template in the style of Llama 2, for tokenizers that come without one.
INST = """{%- if messages[0].role == 'system' %}{% set system = '<<SYS>>\\n' ~ messages[0].content ~ '\\n<</SYS>>\\n\\n' %}{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}
{%- for m in turns %}
{%- if m.role == 'user' %}{{ bos_token ~ '[INST] ' ~ (system if loop.first else '') ~ m.content|trim ~ ' [/INST]' }}
{%- elif m.role == 'assistant' %}{{ ' ' ~ m.content|trim ~ ' ' ~ eos_token }}
{%- if m.tool_calls %}{% for c in m.tool_calls %}{{ '[CALL] ' ~ c.function|tojson ~ ' ' }}{% endfor %}{% endif %}
{%- else %}{{ '[' ~ m.role|upper ~ '] ' ~ m.content ~ ' ' }}{% endif %}
{%- endfor %}
{%- if tools %}{{ '[TOOLS] ' ~ tools|tojson }}{% endif %}"""

# The style of ChatML, with tools, thinking and parts.
CHATML = """{%- if tools %}<|im_start|>system
# Tools
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}{% if m.name %} name={{ m.name }}{% endif %}

{%- if m.reasoning_content is defined and m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}
{%- if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}[{{ part.type }}:{{ part.name }}]{% endif %}{% endfor %}{% endif %}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call | tojson }}</tool_call>{% endfor %}
{%- if m.tool_call_id %}({{ m.tool_call_id }}){% endif %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""

# Refuses what many templates refuse, and knows developers.
STRICT = """{{- bos_token }}
{%- for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}
{%- if m.role == "developer" %}{% set role = 'dev' %}{% else %}{% set role = m.role %}{% endif %}
{{- '<|start|>' ~ role ~ '<|sep|>' ~ m.content|trim ~ '<|end|>' }}
{%- for call in m.tool_calls or [] %}{{ call.function.name ~ call.function.arguments|tojson }}{% endfor %}
{%- endfor %}
{%- if documents %}{% for d in documents %}{{ d.title ~ ': ' ~ d.text }}{% endfor %}{% endif %}
{%- if reasoning_effort is defined %}{{ '<|effort|>' ~ reasoning_effort }}{% endif %}
{%- if topic is defined %}{{ '<|topic|>' ~ topic }}{% endif %}
{%- if add_generation_prompt %}{{ '<|start|>assistant<|sep|>' }}{% endif %}"""

TEXT = """The router sends a prompt to the worker that holds most of its prefix. A cache keeps blocks of tokens;
each block has a hash of its tokens and of the block before. When the same system prompt comes again, the worker
need not compute it again. Tools have names, descriptions and parameters: {"type": "object", "properties": {}}.
def route(prompt, workers): return max(workers, key=lambda w: w.match(prompt))  # 12345 67.89 true false null
Der Router schickt die Anfrage an den Knoten, der den längsten Anfang schon kennt. Größe, Straße, Übermut.
Le routeur choisit la machine qui connaît déjà le début. Être, où, naïve, garçon, œuvre, çà et là.
路由器把请求发送到已经缓存了前缀的节点。缓存命中率决定了首字延迟。 こんにちは、世界。ルーターは前方一致を探します。
Маршрутизатор отправляет запрос туда, где уже есть начало. مرحبا بالعالم. שלום עולם. 안녕하세요 세계. 🙂🚀👩‍👩‍👧
"""


def put(path, obj):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(obj, f, ensure_ascii=False, indent=1)
        f.write("\n")


def config(kind, vocab):
    model_type, arch, more = TYPES[kind]
    return {"model_type": model_type, "architectures": [arch], "vocab_size": vocab, **COMMON, **more}


def write_template(out, text):
    with open(os.path.join(out, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write(text)


def real(tokenizers, out):
    for name, kind in [*REAL.items(), ("show", "qwen3"), ("show_parts", "qwen3")]:
        src = os.path.join(tokenizers, "qwen3" if name.startswith("show") else name)
        dst = os.path.join(out, name)
        shutil.rmtree(dst, ignore_errors=True)
        os.makedirs(dst)
        for f in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(os.path.join(src, f), os.path.join(dst, f))
        if name == "llama2":
            write_template(dst, INST)
        if name.startswith("show"):
            write_template(dst, SHOW_PARTS if name == "show_parts" else SHOW)
        put(os.path.join(dst, "config.json"), config(kind, 200000))
        print(dst)


def small(out):
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    qwen2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    bytelevel = lambda: pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(qwen2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    lines = TEXT.splitlines(keepends=True)

    def byte_level(size, specials):
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = bytelevel()
        t.decoder = decoders.ByteLevel()
        t.train_from_iterator(lines, trainers.BpeTrainer(
            vocab_size=size, special_tokens=[], initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
        t.add_special_tokens(specials)
        return t

    def byte_fallback(size, specials, extra):
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        t.normalizer = normalizers.Replace(" ", "▁")
        t.train_from_iterator(lines, trainers.BpeTrainer(
            vocab_size=size, special_tokens=specials + [f"<0x{i:02X}>" for i in range(256)], show_progress=False))
        s = json.loads(t.to_str())
        s["added_tokens"] = [a for a in s["added_tokens"] if not a["content"].startswith("<0x")]
        t = Tokenizer.from_str(json.dumps(s))
        t.add_special_tokens(extra)
        return t

    def write(name, tok, tok_config, kind, template, more=None):
        dst = os.path.join(out, name)
        shutil.rmtree(dst, ignore_errors=True)
        os.makedirs(dst)
        with open(os.path.join(dst, "tokenizer.json"), "w", encoding="utf-8") as f:
            s = json.loads(tok.to_str())
            s["truncation"] = s["padding"] = None
            json.dump(s, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
        if template is not None:
            write_template(dst, template)
        put(os.path.join(dst, "tokenizer_config.json"), {**tok_config, **(more or {})})
        put(os.path.join(dst, "config.json"), config(kind, tok.get_vocab_size()))
        print(dst)

    chat = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
    t = byte_level(700, chat)
    t.normalizer = normalizers.NFC()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    qwen = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None,
            "unk_token": None, "add_bos_token": False, "split_special_tokens": False, "model_max_length": 131072}
    write("qwen", t, qwen, "qwen3", CHATML)

    # A file whose own components the class ignores: loaded as it is, it would give
    # other ids than the engine's.
    t2 = byte_level(700, chat)
    t2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t2.normalizer = normalizers.Lowercase()
    write("qwen_odd", t2, qwen, "qwen3", None, {
        "chat_template": [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": "TOOLS\n" + CHATML}]})

    marks = ["<|bos|>", "<|eos|>", "<|start|>", "<|sep|>", "<|end|>", "<|effort|>", "<|topic|>"]
    t = byte_level(700, marks)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|bos|> $A", pair="<|bos|> $A <|bos|>:1 $B:1", special_tokens=[("<|bos|>", t.token_to_id("<|bos|>"))])])
    write("fast", t, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|bos|>", "eos_token": "<|eos|>",
                      "model_max_length": 32768}, "llama", STRICT)

    t = byte_fallback(900, ["<unk>", "<s>", "</s>"], [])
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", t.token_to_id("<s>"))])
    write("llama", t, {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                       "legacy": True, "add_bos_token": True, "model_max_length": 4096}, "llama", INST)
    write("llama_new", t, {"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                           "legacy": False, "pad_token": "[PAD]", "model_max_length": 4096}, "llama", SHOW_PARTS)

    t = byte_fallback(900, ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"], ["<start_of_turn>", "<end_of_turn>"])
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", t.token_to_id("<bos>"))])
    write("gemma", t, {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<end_of_turn>",
                       "unk_token": "<unk>", "pad_token": "<pad>", "model_max_length": 32768}, "gemma3_text", SHOW)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "real":
        real(sys.argv[2], sys.argv[3])
    elif len(sys.argv) == 3 and sys.argv[1] == "small":
        small(sys.argv[2])
    else:
        sys.exit(__doc__)
