package fleet

import (
	"context"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Engine is the kind of inference engine a worker runs.
type Engine string

// The engines. EngineAuto (the zero value) is found out by probing.
const (
	EngineAuto   Engine = ""
	EngineVLLM   Engine = "vllm"
	EngineSGLang Engine = "sglang"
	EngineTRTLLM Engine = "tensorrt-llm"
	// EngineOther speaks the OpenAI API and nothing else we know.
	EngineOther Engine = "other"
)

// Worker describes one inference server: plain data, filled in by a Discoverer.
// Only Name and URL are required; what is left zero is probed where the engine
// can tell, and is otherwise unknown.
type Worker struct {
	// Name is unique in the fleet and stable over restarts of the worker.
	Name string `json:"name" yaml:"name"`
	// Epoch tells instances of the same name apart (a pod's uid, a start time).
	// A changed Epoch or URL is a new instance that inherits nothing; so is a
	// changed DataParallel or Events.
	Epoch string `json:"epoch,omitempty" yaml:"epoch,omitempty"`
	// URL is the base address, scheme://host:port with an optional path prefix.
	URL string `json:"url" yaml:"url"`
	// Engine is probed when empty.
	Engine Engine `json:"engine,omitempty" yaml:"engine,omitempty"`
	// Models are the model names served. Empty means: ask /v1/models.
	Models []string `json:"models,omitempty" yaml:"models,omitempty"`
	// Class names the hardware and its settings ("h100-tp2"): workers of one class
	// and model share what the predictor learns.
	Class string `json:"class,omitempty" yaml:"class,omitempty"`
	// Labels are free; policies select by them.
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	// BlockSize is the KV-cache block size in tokens; 0 = learn from events or
	// metrics.
	BlockSize int `json:"blockSize,omitempty" yaml:"blockSize,omitempty"`
	// DataParallel is the number of data-parallel ranks behind URL; 0 means 1.
	DataParallel int `json:"dataParallel,omitempty" yaml:"dataParallel,omitempty"`
	// Events lists the KV event publishers, one a rank. Of TensorRT-LLM, which has
	// no publisher but answers polls, it is the server's own http or https address,
	// once for each rank. Empty: no events, and residency is inferred from our own
	// routing.
	Events []follow.Endpoint `json:"events,omitempty" yaml:"events,omitempty"`
	// Speculative is set when the engine drafts tokens with EAGLE or MTP, which
	// lowers every reported hit by one block.
	Speculative bool `json:"speculative,omitempty" yaml:"speculative,omitempty"`
	// Draining takes no new requests; those in flight go on.
	Draining bool `json:"draining,omitempty" yaml:"draining,omitempty"`
}

// Discoverer tells a Fleet which workers there are.
type Discoverer interface {
	// Discover calls set with the complete list of workers, at once and after
	// every change, until ctx ends; it then returns. An error before that is
	// reported and Discover is called again after a pause; the last list stays in
	// force meanwhile. set copies what it keeps, and refuses a list with an
	// invalid or duplicate worker, returning an error that names it.
	Discover(ctx context.Context, set func([]Worker) error) error
}
