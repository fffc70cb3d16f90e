package local

import (
	"errors"
	"fmt"
)

// ErrModelType is what a [*ModelTypeError] is.
var ErrModelType = errors.New("local: model type is not served locally")

// ModelTypeError says that prompts of a model type are not made by a chat template
// and a Hugging Face tokenizer, or are not known to be. Let the engine's /render
// or /tokenize endpoint serve the model.
type ModelTypeError struct {
	// Type is config.json's model_type, or the architecture that decided.
	Type string
	// Why says what makes its prompts, or that nothing is known of it.
	Why string
}

// Error names the type, the reason and what to do.
func (e *ModelTypeError) Error() string {
	return fmt.Sprintf("local: model type %q: %s; leave this model to the engine's endpoints", e.Type, e.Why)
}

// Unwrap makes errors.Is(err, ErrModelType) true.
func (e *ModelTypeError) Unwrap() error { return ErrModelType }

const whyUnknown = "not known to be rendered by its chat template alone (set Model.AnyType if it is)"

// notJinja are the model types and architectures for which vLLM 0.32 makes prompts
// by code of its own.
//
//nolint:gochecknoglobals // a table
var notJinja = map[string]string{
	"gpt_oss":                            "vLLM renders it by the harmony format",
	"deepseek_v32":                       "vLLM renders it by DeepSeek-V3.2's own encoding",
	"DeepseekV32ForCausalLM":             "vLLM renders it by DeepSeek-V3.2's own encoding",
	"deepseek_v4":                        "vLLM renders it by DeepSeek-V4's own encoding",
	"DeepseekV4ForCausalLM":              "vLLM renders it by DeepSeek-V4's own encoding",
	"DeepseekV4ForConditionalGeneration": "vLLM renders it by DeepSeek-V4's own encoding",
	"deepseek_v41":                       "vLLM renders it by DeepSeek-V4.1's own encoding",
	"DeepseekV41ForCausalLM":             "vLLM renders it by DeepSeek-V4.1's own encoding",
	"kimi_k3":                            "vLLM renders it by Kimi-K3's own encoding",
	"KimiK3ForConditionalGeneration":     "vLLM renders it by Kimi-K3's own encoding",
	"MoonshotKimiaForCausalLM":           "vLLM tokenizes it by Kimi-Audio's own code",
	"inkling_model":                      "vLLM renders it by Inkling's own encoding",
	"inkling_mm_model":                   "vLLM renders it by Inkling's own encoding",
	"InklingForCausalLM":                 "vLLM renders it by Inkling's own encoding",
	"InklingForConditionalGeneration":    "vLLM renders it by Inkling's own encoding",
	"kimi_k2":                            "its tokenizer is code in its repository",
	"kimi_k25":                           "its tokenizer is code in its repository",
	"kimi_linear":                        "its tokenizer is code in its repository",
	"grok-1":                             "its tokenizer is code in its repository",
	"chatglm":                            "its tokenizer is code in its repository",
	"qwen":                               "its tokenizer is code in its repository",
	"baichuan":                           "its tokenizer is code in its repository",
	"xverse":                             "its tokenizer is code in its repository",
	"bert":                               "it is not a generative model",
	"roberta":                            "it is not a generative model",
	"xlm-roberta":                        "it is not a generative model",
	"t5":                                 "encoder-decoder prompts are not made here",
	"bart":                               "encoder-decoder prompts are not made here",
	"whisper":                            "encoder-decoder prompts are not made here",
}

// familyInfo is what transformers 5.19 has on record for a model type.
type familyInfo struct {
	// class is the tokenizer class registered for the type; none when empty.
	class string
	// overrides: the registered class wins over the one that the files name,
	// which is known to be wrong.
	overrides bool
}

// families are the model types that are served: those that vLLM 0.32 renders by
// chat template. Of the multimodal ones requests without media are served.
//
//nolint:gochecknoglobals // a table
var families = map[string]familyInfo{
	"llama": {}, "llama4": {}, "llama4_text": {}, "mllama": {},
	"mistral": {class: classMistralCommon}, "mixtral": {class: classMistralCommon},
	"ministral": {class: classMistralCommon}, "ministral3": {class: classMistralCommon},
	"qwen2": {class: classQwen2, overrides: true}, "qwen2_moe": {class: classQwen2},
	"qwen3": {class: classQwen2}, "qwen3_moe": {class: classQwen2}, "qwen3_next": {class: classQwen2},
	"qwen3_5_text": {class: classQwen35}, "qwen3_5_moe_text": {class: classQwen35, overrides: true},
	"qwen3_5": {class: classQwen35, overrides: true}, "qwen3_5_moe": {class: classQwen35, overrides: true},
	"qwen2_vl": {class: classQwen2}, "qwen2_5_vl": {class: classQwen2},
	"qwen3_vl": {class: classQwen2}, "qwen3_vl_moe": {class: classQwen2},
	"internvl":    {class: classQwen2},
	"deepseek_v2": {class: classBackend, overrides: true}, "deepseek_v3": {class: classBackend, overrides: true},
	"gemma": {class: classGemma}, "gemma2": {class: classGemma}, "gemma3_text": {class: classGemma},
	"gemma3": {class: classGemma}, "gemma3n": {class: classGemma}, "gemma3n_text": {class: classGemma},
	"gemma4": {}, "gemma4_text": {},
	"phi": {class: classGPT2}, "phi3": {class: classBackend, overrides: true},
	"phimoe": {class: classBackend, overrides: true}, "phi4flash": {},
	"glm": {class: classBackend}, "glm4": {class: classBackend}, "glm4_moe": {class: classBackend},
	"glm4_moe_lite": {class: classBackend}, "glm4v": {class: classBackend}, "glm4v_moe": {class: classBackend},
	"granite": {class: classBackend}, "granitemoe": {class: classBackend},
	"granitemoehybrid": {class: classBackend}, "granitemoeshared": {class: classBackend},
	"olmo": {class: classGPTNeoX}, "olmo2": {class: classBackend}, "olmo3": {class: classBackend}, "olmoe": {class: classGPTNeoX},
	"falcon": {}, "falcon_h1": {}, "starcoder2": {class: classGPT2}, "stablelm": {class: classBackend},
	"gpt2": {class: classGPT2}, "gpt_bigcode": {class: classBackend}, "gpt_neox": {class: classGPTNeoX},
	"nemotron": {class: classBackend, overrides: true}, "nemotron_h": {}, "nemotron_nas": {},
	"exaone": {}, "exaone4": {}, "smollm3": {}, "seed_oss": {},
	"ernie4_5": {class: classBackend, overrides: true}, "ernie4_5_moe": {class: classBackend, overrides: true},
	"hunyuan_v1_dense": {}, "hunyuan_v1_moe": {},
	"minimax_m2": {class: classBackend, overrides: true}, "minimax": {},
	"minicpm": {}, "minicpm3": {class: classBackend, overrides: true},
	"bailing_moe": {}, "bailing_moe_v2": {}, "internlm3": {},
	"cohere": {class: classCohere}, "cohere2": {class: classCohere},
	"jamba": {class: classBackend, overrides: true}, "bamba": {}, "zamba2": {},
	"mamba": {class: classGPTNeoX}, "mamba2": {class: classGPTNeoX},
	"lfm2": {}, "lfm2_moe": {}, "mimo": {}, "arcee": {}, "apertus": {}, "dots1": {}, "solar": {},
	"longcat_flash": {}, "step3p5": {class: classBackend, overrides: true}, "dbrx": {class: classGPT2},
	"llava": {class: classBackend, overrides: true}, "llava_next": {class: classBackend, overrides: true},
	"idefics3": {}, "smolvlm": {class: classBackend, overrides: true},
}

// checkType decides by config.json whether a model is served. anyType lets types
// through that are not known, never those known to be rendered otherwise.
func checkType(modelType string, architectures []string, anyType bool) error {
	for _, name := range append([]string{modelType}, architectures...) {
		if why, found := notJinja[name]; found {
			return &ModelTypeError{Type: name, Why: why}
		}
	}
	if _, known := families[modelType]; !known && !anyType {
		return &ModelTypeError{Type: modelType, Why: whyUnknown}
	}
	return nil
}
