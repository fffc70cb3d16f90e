package fleet

import (
	"encoding/json"
	"strings"
)

// engineByOwner tells the engine from "owned_by" in its model list.
func engineByOwner(owner string) Engine {
	switch strings.ToLower(owner) {
	case "vllm":
		return EngineVLLM
	case "sglang":
		return EngineSGLang
	case "tensorrt_llm", "tensorrt-llm", "trtllm":
		return EngineTRTLLM
	default:
		return EngineAuto
	}
}

// Prefixes of the engines' metrics.
const (
	prefixVLLM   = "vllm:"
	prefixSGLang = "sglang:"
	prefixTRTLLM = "trtllm_"
)

// engineByMetric tells the engine from a metric's name.
func engineByMetric(name []byte) Engine {
	switch {
	case hasPrefix(name, prefixVLLM):
		return EngineVLLM
	case hasPrefix(name, prefixSGLang):
		return EngineSGLang
	case hasPrefix(name, prefixTRTLLM):
		return EngineTRTLLM
	default:
		return EngineAuto
	}
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// metricsPaths are where an engine's metrics may be, in order of trial.
// TensorRT-LLM's /metrics is not among its own: reading it takes iteration
// statistics away from whoever collects them.
func metricsPaths(e Engine) []string {
	const common, trtllm = "/metrics", "/prometheus/metrics"
	switch e {
	case EngineVLLM, EngineSGLang:
		return []string{common}
	case EngineTRTLLM:
		return []string{trtllm}
	case EngineAuto, EngineOther:
		return []string{common, trtllm}
	default:
		return nil
	}
}

// serverInfo is SGLang's /server_info, as far as we read it.
type serverInfo struct {
	ModelPath string `json:"model_path"`
	PageSize  int    `json:"page_size"`
}

// parseServerInfo reports ok if body is SGLang's: other engines have an endpoint
// of that name too, without these two.
func parseServerInfo(body []byte) (info serverInfo, ok bool) {
	if err := json.Unmarshal(body, &info); err != nil {
		return serverInfo{}, false
	}
	return info, info.ModelPath != "" && info.PageSize > 0 && info.PageSize <= maxBlockSize
}
