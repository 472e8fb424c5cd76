# rooflab: `make` prints the targets.
B      := _build
GO     ?= go
ROOF   := $(B)/rooflab
ARCH   := data/campaigns/h200x2-kimi-k2.5-int4
KERNEL := $(B)/jupyter/share/jupyter/kernels/rooflab-go/kernel.json
# What the tests of kernels need to know.
KERNELS := ROOFLAB_PYTHON=$(CURDIR)/$(B)/venv/bin/python ROOFLAB_KERNELS=$(CURDIR)/$(B)/jupyter/share/jupyter/kernels \
	ROOFLAB_GOPHERNOTES=$(CURDIR)/$(B)/gophernotes-jupyter/share/jupyter/kernels GOPLS=$(wildcard $(CURDIR)/$(B)/bin/gopls)
export JUPYTER_PATH := $(CURDIR)/$(B)/jupyter/share/jupyter
# The module cache is filled through go.sum; a plain `go build` must work without it being writable.
export GOFLAGS ?= -mod=readonly

.PHONY: help demo test build assets kernel kernel-gophernotes vllm bench-kernel site check lint unit test-live test-browser fuzz bench clean needs

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

needs: ## check for the programs that a build needs
	@sh .ci/need.sh go gcc make git npm

build: needs assets ## build the product binary into _build/rooflab
	@CGO_ENABLED=0 $(GO) build -trimpath -o $(ROOF) .

assets: assets/dist/echarts.min.js ## fetch the pinned JavaScript (npm ci, hashes checked)
assets/dist/echarts.min.js: assets/package-lock.json
	@sh assets/fetch.sh

kernel: build ## build and install the Go kernel under _build/jupyter
	@$(ROOF) kernel install --prefix $(B)/jupyter

kernel-gophernotes: build ## the same with the other engine, under _build/gophernotes-jupyter
	@$(ROOF) kernel install --engine gophernotes --prefix $(B)/gophernotes-jupyter

demo: build kernel ## the whole path on the recorded campaign; prints where the site is
	@rm -rf $(B)/demo
	@$(ROOF) run --campaign $(B)/demo --target replay:$(ARCH) --kernel-dir $(B)/jupyter/share/jupyter/kernels
	@$(ROOF) site build $(B)/demo --output site

test: ## set up everything the tests need, then run them all
	@sh .ci/need.sh go gcc make git npm
	@sh .ci/setup.sh
	@$(MAKE) --no-print-directory build kernel kernel-gophernotes
	@$(MAKE) --no-print-directory unit test-browser

vllm: ## install the two real vLLM servers that tests start, 11 GB under _build
	@sh .ci/vllm.sh

# Packages whose tests run a real vLLM. They come last and one at a time: a server on a busy machine measures nothing.
LIVE := ./campaign ./campaign/load ./campaign/vllm ./internal/livevllm ./internal/phases

unit: ## go test ./..., the packages with real servers last
	@$(KERNELS) $(GO) test -timeout 30m $$($(GO) list ./... | grep -vxF "$$($(GO) list $(LIVE))")
	@$(KERNELS) $(GO) test -p 1 -timeout 60m $(LIVE)

test-live: ## only what runs real servers, with the figures beside those of vllm bench serve
	@$(KERNELS) $(GO) test -p 1 -timeout 60m -v -run 'TestLive|OnVLLM|OnASteadyServer' ./campaign/load ./internal/phases

test-browser: ## JupyterLab in a real Chromium, and other front ends of notebooks
	@sh .ci/browser/run.sh
	@sh .ci/browser/others.sh

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'gofmt wants to change:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@$(GO) vet ./...
	@$(GO) build -modfile=.ci/tools.mod -o $(B)/bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	@$(B)/bin/staticcheck ./...

check: lint test ## what CI runs

fuzz: ## each fuzz target for FUZZTIME (default 10m)
	@sh .ci/fuzz.sh $${FUZZTIME:-10m}

bench: ## benchmarks, as ratios to something measured in the same run
	@$(GO) test -run '^$$' -bench . -benchmem ./trace/... ./charts/svg ./kernel/wire

bench-kernel: ## the Go kernel beside ipykernel, gophernotes and compiled Go
	@$(KERNELS) $(GO) test -run '^$$' -bench Kernels -benchtime 20x -timeout 30m ./kernel

site: ## rebuild the site of the last demo and serve it on 127.0.0.1
	@$(ROOF) site serve $(B)/demo

clean: ## remove build output, not the downloads
	@rm -rf $(B)/rooflab $(B)/demo site
