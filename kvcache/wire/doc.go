// Package wire decodes the cache events of inference engines.
//
// [Decoder] reads the msgpack batches that vLLM and SGLang publish, of every
// release that ever had events; [TRTLLMDecoder] reads the JSON that
// TensorRT-LLM answers to POST /kv_cache_events. Both go by the shape of the
// bytes and never by an engine's version: fields are found by position in arrays
// and by name in maps, unknown ones are passed over, and an event that can't be
// used is counted and left out without losing its neighbours.
//
// Where a field is ambiguous the reading is chosen that can only make the
// router find fewer cached blocks, never more.
package wire
