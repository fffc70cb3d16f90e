package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
)

// serverInfo is what of /server_info is of interest: SGLang's form, and of vLLM's
// nothing, which metrics say too.
type serverInfo struct {
	Version      string `json:"version"`
	ModelPath    string `json:"model_path"`
	PageSize     int    `json:"page_size"`
	DataParallel int    `json:"dp_size"`
	NoRadix      *bool  `json:"disable_radix_cache"`
}

// span is the versions of an engine that docs/compat.md has tests for: both ends
// included, by major and minor number.
type span struct{ from, to [2]int }

// tested is what docs/compat.md says; a test compares the two. TensorRT-LLM was
// never run, its formats are tested as they are documented.
func tested(e fleet.Engine) (span, bool) {
	switch e {
	case fleet.EngineVLLM:
		return span{[2]int{0, 9}, [2]int{0, 32}}, true
	case fleet.EngineSGLang:
		return span{[2]int{0, 4}, [2]int{0, 5}}, true
	case fleet.EngineTRTLLM, fleet.EngineAuto, fleet.EngineOther:
		return span{}, false
	default:
		return span{}, false
	}
}

func (s span) String() string {
	return fmt.Sprintf("%d.%d to %d.%d", s.from[0], s.from[1], s.to[0], s.to[1])
}

// checkEngine: what engine is it, and is its version one that was tested?
func checkEngine(ctx context.Context, p *patient) findings {
	p.get(ctx, "/server_info", &p.info)
	var v struct {
		Version string `json:"version"`
	}
	if p.get(ctx, "/version", &v); v.Version == "" {
		v.Version = p.info.Version
	}
	p.version = v.Version
	p.askSources(ctx)
	name := strings.TrimSpace(title(p.engine) + " " + p.version)
	seen := ownedBy(ctx, p)
	switch {
	case p.engine == fleet.EngineAuto || p.engine == fleet.EngineOther && p.worker.Engine != fleet.EngineOther:
		return warning("neither vLLM, SGLang nor TensorRT-LLM, as far as can be told: it is routed to by our own load " +
			"and by the bytes of prompts").
			advise("If it is one of them, name it in the fleet file (engine: vllm) and turn its metrics on.")
	case seen != fleet.EngineAuto && p.worker.Engine != fleet.EngineAuto && seen != p.worker.Engine:
		return fault("declared as %s, but it says that it is %s", title(p.worker.Engine), title(seen)).
			advise("Correct engine in the fleet file, or leave it out.")
	case p.engine == fleet.EngineOther:
		return ok("declared as another kind: it is routed to by our own load and by the bytes of prompts")
	}
	versions, known := tested(p.engine)
	number, numbered := majorMinor(p.version)
	switch {
	case !known:
		return ok("%s; its formats are tested as it documents them, not on a running one (docs/compat.md)", name)
	case p.version == "":
		return ok("%s; it does not say which version", name)
	case !numbered:
		return ok("%s, a build without a release's number; %s were tested", name, versions)
	case slices.Compare(number[:], versions.to[:]) > 0:
		return warning("%s is newer than what was tested (%s)", name, versions).
			advise("Formats are read by their shape, so it probably works: run this with -probe to see. docs/compat.md has the list.")
	case slices.Compare(number[:], versions.from[:]) < 0:
		return warning("%s is older than what was tested (%s); it may not publish KV events", name, versions).
			advise("Without events routing is approximate. Upgrade for exact routing.")
	}
	return ok("%s, within what was tested (%s)", name, versions)
}

// majorMinor reads the first two numbers of a version. It is false for builds that
// were not cut from a release: 0.0.0, or a development build.
func majorMinor(version string) (number [2]int, numbered bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", len(number)+1)
	if len(parts) < len(number) || strings.Contains(version, "dev") {
		return number, false
	}
	for i := range number {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return number, false
		}
		number[i] = n
	}
	return number, number != [2]int{}
}

func title(e fleet.Engine) string {
	switch e {
	case fleet.EngineVLLM:
		return "vLLM"
	case fleet.EngineSGLang:
		return "SGLang"
	case fleet.EngineTRTLLM:
		return "TensorRT-LLM"
	case fleet.EngineAuto, fleet.EngineOther:
		return "another engine"
	default:
		return string(e)
	}
}

// modelList is the answer of /v1/models.
type modelList struct {
	Data []struct {
		ID    string `json:"id"`
		Owner string `json:"owned_by"`
	} `json:"data"`
}

// ownedBy is the engine that the model list names.
func ownedBy(ctx context.Context, p *patient) fleet.Engine {
	var list modelList
	if !p.get(ctx, pathModels, &list) || len(list.Data) == 0 {
		return fleet.EngineAuto
	}
	switch strings.ToLower(list.Data[0].Owner) {
	case "vllm":
		return fleet.EngineVLLM
	case "sglang":
		return fleet.EngineSGLang
	case "tensorrt_llm", "tensorrt-llm", "trtllm":
		return fleet.EngineTRTLLM
	default:
		return fleet.EngineAuto
	}
}

// checkModels: which models and adapters does it serve, and are they those that
// were declared?
func checkModels(ctx context.Context, p *patient) findings {
	a, err := p.ask(ctx, http.MethodGet, pathModels)
	var list modelList
	switch {
	case err != nil:
		return fault("%s: %v", pathModels, err).advise("Look into the engine's log.")
	case a.refused():
		return fault("%s answers with status %d: it wants a key", pathModels, a.status).
			advise("Give this command the key with -key FILE, and the router with fleet.Options.Prepare.")
	case !a.ok() && len(p.worker.Models) > 0:
		return ok("%d declared; %s answers with status %d", len(p.worker.Models), pathModels, a.status)
	case !a.ok():
		return fault("%s answers with status %d", pathModels, a.status).
			advise("Declare what it serves as models in the fleet file.")
	case json.Unmarshal(a.body, &list) != nil || len(list.Data) == 0:
		return fault("%s lists no models", pathModels).
			advise("Check that url is the engine's own address.")
	}
	served := make([]string, len(list.Data))
	for i := range list.Data {
		served[i] = list.Data[i].ID
	}
	var missing []string
	for _, m := range p.worker.Models {
		if !slices.Contains(served, m) {
			missing = append(missing, m)
		}
	}
	facts := Facts{"served": served}
	switch {
	case len(missing) > 0 && len(missing) == len(p.worker.Models):
		return fault("serves none of its declared models (%s), but %s", names(missing), names(served)).
			advise("Correct models, or url, in the fleet file.").with(facts)
	case len(missing) > 0:
		return warning("does not list some of its declared models (%s)", names(missing)).
			advise("Requests for them fail unless it loads them on demand: correct models in the fleet file.").with(facts)
	}
	return ok("%s", p.describeModels(served)).with(facts)
}

// describeModels tells adapters from models, where the fleet has read the list.
func (p *patient) describeModels(served []string) string {
	var bases, adapters []string
	for _, m := range p.models() {
		switch {
		case m.Parent != "":
			adapters = append(adapters, m.Name)
		case m.MaxModelLen > 0:
			bases = append(bases, fmt.Sprintf("%s (%d tokens)", m.Name, m.MaxModelLen))
		default:
			bases = append(bases, m.Name)
		}
	}
	switch {
	case len(bases) == 0:
		return names(served)
	case len(adapters) > 0:
		return names(bases) + "; adapters " + names(adapters)
	default:
		return names(bases)
	}
}

// models are those that the router would route to the worker.
func (p *patient) models() []fleet.Model {
	if p.member == nil {
		return nil
	}
	return p.member.Models()
}

// model is the one that is asked for where any will do: a base model.
func (p *patient) model() string {
	for _, m := range p.models() {
		if m.Parent == "" {
			return m.Name
		}
	}
	return ""
}

// names lists a few of many.
func names(all []string) string {
	const most = 5
	if more := len(all) - most; more > 0 {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(all, ", ")
}
