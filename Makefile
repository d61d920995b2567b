# Every task of the repository is a target here. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
BED := $(BIN)/python -m windlass_testbed
# Runs the suites of a target unless their input has passed on this machine; FORCE=1 runs them all.
SUITES := $(BIN)/python -m windlass_testbed.suites
ENGINE_TESTS := $(BIN)/pytest -q --timeout 2400 -p no:randomly
# The gate has two cores; tests/conftest.py says what stays together. An engine keeps a core busy. The other tests wait for
# timers, disks and processes half of their time, so they get more processes than there are cores.
BY_FILE := --dist loadfile --no-loadscope-reorder --durations 12
TWO := -n 2 $(BY_FILE)
FOUR := -n 4 $(BY_FILE)
# A Python that has vLLM and sees an NVIDIA GPU, one where a program does not name more, and the folder of its findings.
# PLUGINS before it: our entry points beside the sources, for a program that makes an engine in its own process.
CARD := CUDA_VISIBLE_DEVICES=$${CUDA_VISIBLE_DEVICES:-0} PYTHONPATH=$(CURDIR)/server/src:$(CURDIR)/lib/base/src:$(CURDIR)/lib/sizing/src$${PYTHONPATH:+:$$PYTHONPATH} python3
CARD_OUT = $(or $(OUT),.cache/gpu)
PLUGINS = export PYTHONPATH=$$(python3 benchmarks/quantization/beside.py $(abspath $(CARD_OUT)/work))$${PYTHONPATH:+:$$PYTHONPATH};
# ISA=avx2 with a test target: as on a processor that has AVX2 and no AVX-512. The testbed takes the serving image with
# this limit, and the draft decoder and numpy of the other tests get it from these variables.
ifdef ISA
export WINDLASS_ISA := $(ISA)
export WINDLASS_DRAFT_KERNELS := $(ISA)
export OPENBLAS_CORETYPE := Haswell
endif
# Kept outside the checkout by content: a new one checks only what changed.
CHECKED := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/windlass/checked
LOCK := $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --custom-compile-command 'make lock'
LOCK_GPU := $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --only-binary :all: --python-version 3.13 --python-platform x86_64-manylinux_2_36

##@ Use
.PHONY: help demo chat demo-delete cluster cluster-delete env
help: ## list the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*##/ {gsub(/\$$\$$/, "$$", $$2); printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
demo: sync ## from a bare machine to a streamed answer of a served model
	@$(BED) demo
chat: sync ## talk to the demo's service
	@$(BED) chat
demo-delete: sync ## delete the demo: service, charts, cluster; caches stay
	@$(BED) down
cluster: sync ## a kind cluster with two workers of eight named GPUs each
	@$(BED) up
cluster-delete: demo-delete ## delete the cluster and stop our container engine; caches stay
env: sync ## print the environment of the cluster: eval "$$(make env)"
	@$(BED) env

##@ Change
.PHONY: sync fmt check crds charts golden list-keys docs lock version images images-gpu push
sync: ## make .venv with the locked packages
	@tools/bootstrap
fmt: sync ## format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .
	@tools/cpp fmt
check: sync crds charts ## format, lint, rules of the house, types, layers, spelling; generated files are current
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/python -m tools.house
	@tools/cpp check
	@$(BIN)/mypy --cache-dir $(CHECKED)/mypy && $(BIN)/lint-imports --no-cache
	@$(BIN)/codespell README.md CONTRIBUTING.md SECURITY.md docs lib operator clients server license_server tools/testbed charts examples models
	@$(BIN)/yamllint -s -c .yamllint crds examples charts/*/values.yaml tools/testbed/node
	@git diff --exit-code --stat -- crds charts
crds: sync ## write the CRD into its chart, to which crds/ is a link, from the pydantic models
	@$(BIN)/python -m windlass_api.crd.schema
charts: crds ## copy the service of its notes into the chart
	@cp examples/first-service.yaml charts/windlass/files/first-service.yaml
golden: sync ## rewrite the golden manifests and the pages that code prints; read the diff
	@WINDLASS_GOLDEN=write $(BIN)/pytest -q lib/api/tests operator/tests clients/client/tests clients/console/tests/test_openapi.py lib/sizing/tests/test_methods_page.py server/tests/launch/test_template_page.py server/tests/launch/test_flags_page.py server/tests/group/test_page.py server/tests/test_replaced.py tests/contract/test_*_page.py tests/contract/test_exit_codes.py tests/contract/test_mistakes.py
	@$(BIN)/python -m tools.house --write features-page
list-keys: sync ## write the keys of Kubernetes' lists, as the API server of the tests publishes them
	@WINDLASS_GOLDEN=write $(BIN)/pytest -q tests/apiserver/test_list_keys.py
docs: sync ## build the docs as a site into .cache/site; a link to nothing ends it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/uv run --quiet --no-project --python $(BIN)/python --with-requirements tools/docs/site.lock mkdocs build --strict --clean -f tools/docs/mkdocs.yml
lock: ## resolve requirements.lock, the locks of the site and of clang's tools, and the images' build.lock again
	@$(LOCK) --no-emit-package windlass-sizing --no-emit-package windlass-server --no-emit-package windlass-api --no-emit-package windlass-base --no-emit-package windlass-client --group dev {lib/base,lib/api,operator,operator/download,clients/client,server,license_server,server/deepspeed,clients/console,lib/sizing}/pyproject.toml -o requirements.lock
	@$(LOCK) --no-header tools/docs/site.in -o tools/docs/site.lock
	@$(LOCK) --no-header tools/cpp.in -o tools/cpp.lock
	@$(LOCK) --no-header images/build.in -o images/build.lock
	@$(LOCK_GPU) --override images/engine-gpu/overrides.txt images/engine-gpu/vllm.in -o images/engine-gpu/vllm.lock
	@$(LOCK_GPU) images/engine-gpu/deepspeed.in -o images/engine-gpu/deepspeed.lock
version: sync ## print the version of everything, or write another: NEW=0.3.0
	@$(BED) version $(NEW)
images: sync ## build the project's images and print their tags
	@$(BED) images
images-gpu: sync ## build the GPU images from Debian and the package index, and check them without a GPU: 20 GB, not in the gate
	@$(BED) images-gpu
push: sync ## push the images to REGISTRY=registry.example.com/team and print their digests; GPU=1 with the images for GPUs
	@$(BED) push '$(REGISTRY)' $(if $(GPU),--gpu)

##@ Release
.PHONY: release demo-release upgrade-live upgrade-licenses
release: sync ## wheels, charts, images, bundle, SBOMs, sums, signature, provenance into dist/; GPU=1 with the GPU images
	@$(BED) release $(if $(GPU),gpu)
demo-release: sync ## install dist/'s bundle from a registry on the cluster, by digest and without egress, and ask the model
	@$(BED) demo-release
upgrade-live: sync ## 0.1.0 to this release and back on the cluster with streams running; takes every LLMService away
	@$(BIN)/python tests/kind/run_upgrade.py
upgrade-licenses: sync ## the license servers of 0.1.0 and of this release in turn on one database
	@$(BIN)/python license_server/crash/upgrade.py

##@ Test
.PHONY: test test-fast test-apiserver test-engine test-long test-kind test-published test-e2e test-tiny test-chat-page test-clients test-docs test-console demo-console test-ray test-nfs test-ingress test-autoscale test-usage test-gpu test-gpu-lookahead test-gpu-grammars test-seeded-faults
# `make`, not its variable: with that, `make -n` would run the line and take the check for passed.
test: sync ## everything but what has passed with the same input, FORCE=1 that too; ISA=avx2 as on a processor without AVX-512
	@$(SUITES) check -- make --no-print-directory check
	@$(MAKE) --no-print-directory sanitize-lookahead test-fast test-engine
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-kind test-apiserver
test-fast: sync ## pure and contract tests: minutes
	@$(SUITES) test-fast -- $(BIN)/pytest -q $(FOUR) -m 'not apiserver and not kind'
test-apiserver: sync ## the operator against a real kube-apiserver and etcd
	@WINDLASS_KUBE_BIN=$$($(BED) tool) $(SUITES) test-apiserver -- $(BIN)/pytest -q $(FOUR) -m 'not kind'
test-engine: sync ## real vLLM in the CPU serving image, without a cluster, by two processes
	@$(SUITES) test-engine -- $(BED) during $(ENGINE_TESTS) $(TWO) -m 'not long'
test-long: sync ## what the gate leaves out of the tests in the serving image
	@$(ENGINE_TESTS) -m long tests/engine
test-seeded-faults: sync ## a fault of one line for each fast suite, in a copy of the last commit: each is found
	@nice $(BIN)/python tools/testbed/run_seeded_faults.py
test-chat-page: sync ## the chat page in headless Chromium, before real vLLM
	@command -v chromium >/dev/null || apt-get install -y -qq --no-install-recommends chromium >/dev/null
	@$(ENGINE_TESTS) tests/engine/api/run_chat_page.py
test-clients: sync ## client libraries at real vLLM, each at the version of tests/engine/api/run_clients.py
	@$(ENGINE_TESTS) tests/engine/api/run_clients.py
test-tiny: sync ## every tiny model in vLLM
	@$(ENGINE_TESTS) tests/engine/models/test_tiny_models.py --all-tiny
test-nfs: sync ## inspection, download and serving on an NFS share that goes away, in guests with Debian's kernel: 15 min emulated
	@dpkg --status qemu-system-x86 nfs-ganesha nfs-ganesha-vfs busybox-static kmod cpio curl >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq --no-install-recommends qemu-system-x86 nfs-ganesha nfs-ganesha-vfs busybox-static kmod cpio curl >/dev/null; }
	@$(BIN)/pytest -q -s --timeout 4000 -p no:randomly tests/storage
test-ingress: sync ## two services behind a real Traefik on the cluster, by Ingress and Gateway API; builds Traefik: 10 min the first time
	@command -v chromium >/dev/null || apt-get install -y -qq --no-install-recommends chromium >/dev/null
	@WINDLASS_KUBE_BIN=$$($(BED) tool) $(BIN)/pytest -q -p no:randomly tests/apiserver/run_traefik.py
	@$(BED) during $(BIN)/pytest -q -s --timeout 1800 -p no:randomly tests/kind/run_ingress.py
test-autoscale: sync ## KEDA takes a service from one replica to three and back on the cluster; builds KEDA: 15 min the first time
	@WINDLASS_KUBE_BIN=$$($(BED) tool) $(BIN)/pytest -q -p no:randomly tests/apiserver/run_keda.py
	@$(BED) during $(BIN)/pytest -q -s --timeout 1800 -p no:randomly tests/kind/run_autoscale.py
test-usage: sync ## `kubectl windlass usage` on the cluster: two replicas, two keys, a container killed with -9: 4 min
	@$(BED) during $(BIN)/pytest -q -s --timeout 1200 -p no:randomly tests/kind/run_usage.py
test-gpu: ## where python3 has vLLM and sees an NVIDIA GPU: kernels against float64, against sorting and with a late host, every method ends by SIGTERM and answers on a real checkpoint; OUT=folder SMOOTHQUANT=its file
	@mkdir -p $(CARD_OUT)
	@$(CARD) benchmarks/quantization/kernels.py --weights 4 8 fp8 fp8_bf16 --minutes 3 --shapes qkv o down --m 1 10 64 512 2048 --out $(CARD_OUT)/kernels.json
	@$(CARD) tests/card/fp8_exactly.py
	@$(CARD) tests/card/packed_exactly.py
	@$(CARD) tests/card/placing.py
	@$(CARD) tests/card/waiting.py
	@$(CARD) benchmarks/processes/endings.py $(CARD_OUT)/endings
	@tests/card/check.sh $(CARD_OUT) $(SMOOTHQUANT)
test-gpu-lookahead: ## the same place: lookahead's tests against servers of it, and rules of sampling beside each drafter; CHOICE=two_ranks where there are two cards
	@PYTHONPATH=server/src:lib/base/src:lib/sizing/src:tools/testbed/src$${PYTHONPATH:+:$$PYTHONPATH} PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -m pytest -c tests/engine/here.ini --rootdir . --here -k '$(or $(CHOICE),not two_ranks)' tests/engine/lookahead/test_lookahead.py tests/engine/sampling/test_rules.py
test-gpu-grammars: ## the same place: every order of requests that take different grammar engines, behind fresh starts
	@PYTHONPATH=server/src:lib/base/src:lib/sizing/src:tools/testbed/src$${PYTHONPATH:+:$$PYTHONPATH} PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -m pytest -c tests/engine/here.ini --rootdir . --here tests/engine/grammars
test-docs: docs ## the site in headless Chromium: the copy button, the search, the tables of fields, the front page
	@command -v chromium >/dev/null || apt-get install -y -qq --no-install-recommends chromium >/dev/null
	@$(BIN)/pytest -q --timeout 300 tests/browser/run_site.py
test-console: sync ## the console's pages in headless Chromium: types, vendored modules, before a stand-in of the back end and before the real one
	@command -v chromium >/dev/null || apt-get install -y -qq --no-install-recommends chromium >/dev/null
	@command -v npm >/dev/null || apt-get install -y -qq --no-install-recommends npm >/dev/null
	@cd clients/console && npm ci --ignore-scripts --no-audit --no-fund --silent
	@WINDLASS_KUBE_BIN=$$($(BED) tool) $(BIN)/pytest -q --timeout 300 tests/browser/console
	@WINDLASS_KUBE_BIN=$$($(BED) tool) $(BIN)/pytest -q -s --timeout 300 tests/apiserver/run_console_pages.py
	@WINDLASS_KUBE_BIN=$$($(BED) tool) $(BIN)/pytest -q -s --timeout 300 tests/apiserver/run_console_scale.py
demo-console: sync ## the console by its chart on the cluster, in headless Chromium: deploy, watch, chat, scale, break, repair, delete; by keyboard; two users; PICTURES=1 for the docs'
	@command -v chromium >/dev/null || apt-get install -y -qq --no-install-recommends chromium >/dev/null
	@command -v npm >/dev/null || apt-get install -y -qq --no-install-recommends npm >/dev/null
	@cd clients/console && npm ci --ignore-scripts --no-audit --no-fund --silent
	@WINDLASS_PICTURES=$(PICTURES) $(BED) during $(BIN)/pytest -q -s --timeout 1800 -p no:randomly tests/kind/run_console.py
test-ray: sync ## a real Ray cluster of two members, in an environment of its own
	@$(BIN)/uv run --quiet --no-project --with ray==2.60.0 pytest -q tests/ray
test-kind: sync ## the scenarios on the kind cluster
	@$(SUITES) test-kind -- $(BED) during $(ENGINE_TESTS) --durations 12 -m 'not long'
test-published: sync ## a cluster from a node image by digest, out of a registry on this machine; takes the cluster away
	@$(BIN)/python tests/kind/run_published.py $(if $(DEMO),--command demo --cold)
test-e2e: test-engine test-kind ## vLLM in its image, then the scenarios on the kind cluster

##@ Break
.PHONY: crash-license crash-download fuzz-license fuzz-api sanitize-lookahead fuzz-lookahead kill-groups stop-engines drain-groups faults fuzz-specs soak deletes
faults: sync ## inject every fault of the corpus, on the kind cluster and on an API server: a table of what was said
	@WINDLASS_KUBE_BIN=$$($(BED) tool) $(BIN)/python tests/attack/faults/run.py
fuzz-specs: sync ## 2,000 random and hostile specs for the operator on a real API server
	@WINDLASS_KUBE_BIN=$$($(BED) tool) WINDLASS_HOSTILE_SPECS=2000 $(BIN)/pytest -q -s tests/attack/faults/test_hostile_specs.py
crash-license: sync ## kill the license server 100 times, cut its power 100 times, hold it to what it acknowledged
	@$(BIN)/python license_server/crash/run.py
crash-download: sync ## kill the download 100 times, let several own it at once, look for half models
	@$(BIN)/python operator/download/faults/run.py
fuzz-license: sync ## ten minutes of invented bytes for the license parsers, and invented requests for every path
	@$(BIN)/uv run --quiet --no-project --with atheris==3.0.0 python license_server/fuzz/parsers.py -max_total_time=600
	@WINDLASS_FUZZ_EXAMPLES=1000 $(BIN)/pytest -q --timeout 2400 license_server/tests/test_openapi.py
fuzz-api: sync ## drawn requests at every route of the server: EXAMPLES=100 of each
	@WINDLASS_FUZZ_EXAMPLES=$(or $(EXAMPLES),100) $(ENGINE_TESTS) tests/engine/api/test_openapi_fuzz.py
sanitize-lookahead: sync ## the lookahead core under address, undefined-behaviour and thread sanitizers
	@$(SUITES) sanitize-lookahead -- bash -c 'tools/sanitize lookahead_fuzz 150 1 && tools/sanitize lookahead_tiles && tools/sanitize lookahead_threads'
fuzz-lookahead: sync ## random calls under the sanitizers: ROUNDS=5000 SEED=1
	@tools/sanitize lookahead_fuzz $(or $(ROUNDS),5000) $(or $(SEED),1)
soak: sync ## ten minutes at rest: the operator must write nothing, and take back every edit; REST=600
	@WINDLASS_KUBE_BIN=$$($(BED) tool etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kwok) $(BIN)/python operator/bench/scale/soak.py --seconds $(or $(REST),600)
deletes: sync ## service, operator and namespace deleted in 50 random orders; nothing may be left
	@WINDLASS_KUBE_BIN=$$($(BED) tool etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kwok) $(BIN)/python operator/bench/scale/deletes.py $(or $(ROUNDS),50)
kill-groups: sync ## kill members of a group on the cluster, again and again: KILLS=20 SEED=1
	@$(BIN)/python tests/kind/run_group_kills.py --kills $(or $(KILLS),20) --seed $(or $(SEED),1)
stop-engines: sync ## stop an engine's processes on the cluster: seconds to the reason, the restart and Ready
	@$(BIN)/python tests/kind/run_hang.py
drain-groups: sync ## kubectl drain of a node with two replicas of a group on the cluster: one goes, the other waits
	@$(BIN)/python tests/kind/run_drain.py

##@ Attack
ATTACKS := attack-admission attack-operator attack-sizing attack-license attack-guard attack-console attack-hostile
ATTACK_ROWS := $(CURDIR)/.cache/attack.jsonl
# SHORT=1 with an attack: its short version. The files long_*.py have none. pytest drops a file that lies in a folder
# which it is given as well, so those that a run collects besides test_*.py have names of their own.
long = $(if $(SHORT),$(2),$(1))
ATTACK_FILES := -o 'python_files=test_*.py run_*.py $(call long,long_*.py)'
.PHONY: attack $(ATTACKS) usage-kills audit
attack: sync ## every attack, then one table of bounds and what was seen; SHORT=1 in ten minutes; on a machine that does nothing else
	@mkdir -p $(dir $(ATTACK_ROWS)) && rm -f $(ATTACK_ROWS) && touch $(ATTACK_ROWS).begun
	@-WINDLASS_ATTACK_ROWS=$(ATTACK_ROWS) $(MAKE) --no-print-directory -i $(ATTACKS)
	@$(BIN)/python tests/attack/table.py $(ATTACK_ROWS) $(if $(SHORT),--short)
attack-admission: sync ## 100,000 drawn pieces of pods and Ingresses, and 10,000 hostile specs at a real API server
	@WINDLASS_KUBE_BIN=$$($(BED) tool) WINDLASS_ATTACK_OVERLAYS=$(call long,100000,5000) WINDLASS_ATTACK_INGRESSES=$(call long,100000,5000) WINDLASS_ATTACK_SPECS=$(call long,10000,500) nice $(BIN)/pytest -q -s --timeout 3600 -p no:randomly tests/attack/admission
attack-operator: sync ## 300 LLMServices alone and beside 50 poisoned ones: TURNS=5; the operator's ports and objects
	@WINDLASS_KUBE_BIN=$$($(BED) tool) $(BIN)/pytest -q -s --timeout 3600 -p no:randomly tests/attack/operator
	@WINDLASS_KUBE_BIN=$$($(BED) tool etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kwok) nice $(BIN)/python tests/attack/operator/neighbours.py --turns $(or $(TURNS),$(call long,5,3)) $(call long,,--services 100 --no-edits)
attack-sizing: sync ## 100,000 bent model directories: EXAMPLES=100000
	@WINDLASS_FUZZ_EXAMPLES=$(or $(EXAMPLES),$(call long,100000,1000)) nice $(BIN)/pytest -q --timeout 7200 -p no:randomly tests/attack/sizing
attack-license: sync ## floods at the license server while healthy pods renew, kill -9 under load, half handshakes; on a machine that does nothing else
	@$(BIN)/python tests/attack/license/floods.py --seconds $(call long,300,15)
	@$(BIN)/python tests/attack/license/open_floods.py --seconds $(call long,15,5)
	@$(BIN)/python tests/attack/license/kills.py --seconds $(call long,60,15)
	@WINDLASS_FUZZ_EXAMPLES=$(call long,10000,500) $(BIN)/python tests/attack/license/fuzz_http.py
	@$(BIN)/pytest -q --timeout 3600 -p no:randomly tests/attack/license tests/attack/tls
attack-guard: sync ## attack both API fronts as processes, their paths by 200,000 drawn spellings, the chat page by 2,000 answers in Chromium
	@WINDLASS_FUZZ_PATHS=$(call long,200000,3000) $(BIN)/pytest -q --timeout 3600 -p no:randomly $(ATTACK_FILES) tests/attack/guard
	@command -v chromium >/dev/null || apt-get install -y -qq --no-install-recommends chromium >/dev/null
	@WINDLASS_FUZZ_MARKDOWN=$(call long,2000,100) $(BIN)/python tests/attack/chat_page/run.py
attack-console: sync ## the console before a real API server: 20,000 drawn paths, floods, and hostile text and pages in Chromium
	@command -v chromium >/dev/null || apt-get install -y -qq --no-install-recommends chromium >/dev/null
	@WINDLASS_KUBE_BIN=$$($(BED) tool) WINDLASS_FUZZ_PATHS=$(call long,20000,500) $(BIN)/pytest -q -s --timeout 3600 -p no:randomly $(ATTACK_FILES) tests/attack/console
usage-kills: sync ## kill -9 the server 100 times under load; usage records are what clients received: KILLS=100
	@WINDLASS_KILLS=$(or $(KILLS),100) nice $(BIN)/pytest -q -s --timeout 3600 -p no:randomly server/tests/front/usage/test_kill.py
attack-hostile: sync ## hubs, API servers and pods that lie: 2,000 listings of each hub, and a report of their making
	@WINDLASS_FUZZ_EXAMPLES=$(call long,2000,100) nice $(BIN)/pytest -q --timeout 3600 -p no:randomly $(ATTACK_FILES) tests/attack/download tests/attack/plugin
audit: sync ## look every locked Python package up in the advisory database; needs a network that reaches it
	@for lock in requirements.lock images/*.lock images/*/*.lock; do echo "▸ $$lock"; $(BIN)/uv run --quiet --no-project --with pip-audit==2.10.1 pip-audit --strict --disable-pip --vulnerability-service osv -r $$lock || exit 1; done

##@ Measure
.PHONY: bench-cpu scale-console bench-cli bench-front bench-limits bench-preread bench-demo bench-host-draft bench-license bench-replay bench-lookahead bench-sizing size-keys identity hang-load load-clients scale
bench-cli: sync ## how fast the command line answers
	@$(BIN)/python server/bench/cli.py
bench-limits: sync ## what two replicas serve of what each key offers, over one connection and many: 5 min
	@$(BIN)/python server/bench/limits.py
bench-front: sync ## processor time of the API's process: the guard and the owner of several processes alone, then vLLM's server without the guard and with it; TURNS=4 BEFORE=a checkout's server/src below the repository MORE=flags of run.py
	@PYTHONPATH=server/src:lib/base/src:lib/sizing/src $(BIN)/python benchmarks/front/guard_alone.py
	@PYTHONPATH=server/src:lib/base/src:lib/sizing/src $(BIN)/python benchmarks/front/owner_alone.py
	@$(BED) python /repo/benchmarks/front/run.py --turns $(or $(TURNS),4) $(if $(BEFORE),--before /repo/$(BEFORE)) $(MORE)
bench-preread: sync ## reading weights ahead, against one plain reader
	@$(BIN)/python server/bench/preread.py
bench-cpu: sync ## processor time of vLLM on a CPU, of a token and of a prompt's; ISA=avx2 as without AVX-512
	@for dtype in float32 bfloat16; do $(BED) python /repo/benchmarks/instruction_sets/engine.py $$dtype || exit 1; done
bench-demo: sync ## the demo model's whole evaluation, and transformers against vLLM on 50 prompts
	@$(BED) python /repo/models/demo/evaluate.py --work /work && $(BED) python /repo/models/demo/evaluate.py --work /work --equality 50
bench-license: sync ## the license server under 2,000 pods, durability on
	@$(BIN)/python license_server/bench/load.py
bench-replay: sync ## the replay table; ENGINE=python with vLLM and arctic-inference, TRACES=directory of more traces
	@$(or $(ENGINE),$(BIN)/python) benchmarks/lookahead/replay.py $(if $(TRACES),--traces $(TRACES))
bench-lookahead: sync ## microseconds and memory of the native core at five million entries
	@$(or $(ENGINE),$(BIN)/python) benchmarks/lookahead/micro.py
bench-host-draft: sync ## milliseconds of a draft model on this host's cores: MORE=flags of host_draft.py
	@$(BIN)/python benchmarks/lookahead/host_draft.py $(MORE)
scale: sync ## the operator with N=1000 LLMServices on a real API server; kwok plays the kubelets
	@WINDLASS_KUBE_BIN=$$($(BED) tool etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kwok) $(BIN)/python operator/bench/scale/run.py $(or $(N),1000)
scale-console: sync ## the console before N=1000 LLMServices of the real operator: first list, memory, updates a second to one and twenty watchers
	@WINDLASS_KUBE_BIN=$$($(BED) tool etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kwok) $(BIN)/python clients/console/bench/scale.py $(or $(N),1000)
bench-sizing: sync ## parameters and bytes of real models against the formula: CONFIGS=directory of folders with config.json, and facts.json where the figures are known
	@$(BIN)/python lib/sizing/bench/accuracy.py $(CONFIGS)
size-keys: ## write which keys of each model's class its size depends on, from transformers and the engine: ENGINE=python with both
	@nice $(or $(ENGINE),$(BIN)/python) lib/sizing/bench/size_keys.py
identity: sync ## the same tokens with lookahead and without, on every workload: ENGINE=python with vLLM and the core, TRACES=directory, STATE=file to go on with
	@nice $(or $(ENGINE),$(BIN)/python) tests/engine/identity/identity.py models/demo --traces benchmarks/lookahead/traces $(TRACES) $(if $(STATE),--state $(STATE)) $(if $(JSON),--json $(JSON))
hang-load: sync ## heavy load without a false alarm of an engine that hangs: MINUTES=30
	@MINUTES=$(or $(MINUTES),30) $(BIN)/pytest -q -s --timeout 7200 -p no:randomly tests/engine/processes/run_hang_load.py
load-clients: sync ## 500 clients at real vLLM, slow readers and leavers among them
	@$(BIN)/pytest -q -s --timeout 2400 -p no:randomly tests/engine/api/run_load.py

##@ Measure where python3 has vLLM and sees an NVIDIA GPU: OUT=folder MORE=flags of the program
CARD_BENCHES := bench-api-processes bench-cells bench-client bench-drafts bench-endings bench-engines bench-first-requests bench-headline bench-host-drafts bench-images bench-kernels bench-precision bench-predictions bench-prefix-offload bench-prompts bench-sequence-parallel bench-serving bench-speculation bench-tool-calls identity-card identity-rules
.PHONY: $(CARD_BENCHES)
$(CARD_BENCHES): | $(CARD_OUT)/work
$(CARD_OUT)/work:
	@mkdir -p $@
bench-api-processes: ## requests a second of one API process and four, stock and ours
	@$(CARD) benchmarks/front/several.py --work $(CARD_OUT)/work $(MORE)
bench-client: ## what the load generator adds, against a server without a model
	@$(CARD) benchmarks/client/overhead.py $(CARD_OUT)/client.json --tokenizer models/demo --plain $(MORE)
bench-endings: ## seconds until servers end by SIGTERM, and what is left of them after their benchmark was killed
	@$(CARD) benchmarks/processes/endings.py $(CARD_OUT)/endings && $(CARD) benchmarks/processes/killed.py $(CARD_OUT)/work $(MORE)
bench-headline: ## ten clients, every method, with and without lookahead: MODEL=folder TALKS=ShareGPT's format
	@benchmarks/headline/run.sh $(MODEL) $(TALKS) $(CARD_OUT)/headline
bench-images: ## what the GPU image holds, as root: PART=features, presets, planned or groups LAYER=folder
	@benchmarks/images_on_card/card.sh $(or $(PART),features) $(CARD_OUT) $(MORE) && python3 benchmarks/images_on_card/tables.py $(CARD_OUT)/$(or $(PART),features).json
bench-cells: ## is lookahead ever slower: CELLS=file; with ALPACA_EVAL, WMT, TAU_BENCH=clones it is made
	@$(if $(ALPACA_EVAL),$(CARD) benchmarks/lookahead/prepare_cells.py $(CELLS) --alpaca-eval $(ALPACA_EVAL) --wmt $(WMT) --tau-bench $(TAU_BENCH))
	@$(CARD) benchmarks/lookahead/cells.py $(CELLS) $(CARD_OUT)/cells.json $(MORE)
bench-drafts: $(CARD_OUT)/workloads.json.gz ## ms a token with and without lookahead: TRACES=folder
	@$(CARD) benchmarks/lookahead/on_device.py $< $(CARD_OUT)/drafts.json $(MORE)
identity-card: $(CARD_OUT)/workloads.json.gz ## the same tokens with lookahead and without: TRACES=folder
	@$(CARD) benchmarks/lookahead/device_identity.py models/demo $< $(CARD_OUT)/identity.json
$(CARD_OUT)/workloads.json.gz: | $(CARD_OUT)/work
	@$(CARD) benchmarks/lookahead/prepare_device.py $@ --traces $(or $(TRACES),benchmarks/lookahead/traces)
bench-first-requests: ## the first 20 requests of a server beside later ones, with lookahead and without
	@$(CARD) benchmarks/lookahead/first_requests.py --work $(CARD_OUT)/work --out $(CARD_OUT)/first_requests.json $(MORE)
bench-host-drafts: ## a draft model on the host's cores, by acceptance
	@$(PLUGINS) export PYTHONPATH=$(CURDIR)/benchmarks/lookahead:$$PYTHONPATH HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_USE_FLASHINFER_SAMPLER=0; $(CARD) benchmarks/lookahead/host_drafts_on_device.py $(CARD_OUT)/host_drafts.jsonl $(MORE)
identity-rules: ## outputs under rules of sampling, with each drafter and without
	@$(PLUGINS) $(CARD) tests/engine/identity/rules.py models/demo --json $(CARD_OUT)/rules.json $(MORE)
bench-speculation: ## tokens a second of every method that drafts
	@benchmarks/speculation_methods/on_card.sh $(CARD_OUT)/speculation $(MORE)
bench-engines: ## ms a token and a prompt of whole engines, stock vLLM beside our methods
	@$(CARD) benchmarks/quantization/end_to_end.py --work $(CARD_OUT)/work --out $(CARD_OUT)/engines.json $(MORE)
bench-prompts: ## ms of prompts by method and by the largest graph, engines in turns
	@$(CARD) benchmarks/quantization/prompts.py --work $(CARD_OUT)/work --out $(CARD_OUT)/prompts.json $(MORE)
bench-serving: ## ten clients over HTTP, one server a method
	@$(CARD) benchmarks/quantization/serving.py --work $(CARD_OUT)/work --out $(CARD_OUT)/serving.json $(MORE)
bench-kernels: ## every tile of the kernels, and the fastest set for this card
	@$(CARD) benchmarks/quantization/kernels.py --sweep --out $(CARD_OUT)/sweep.json $(MORE) && $(CARD) benchmarks/quantization/rates.py $(CARD_OUT)/sweep.json
bench-precision: ## perplexity and agreement of each method on the demo model, without a GPU: DATA=held_out.jsonl
	@$(CARD) benchmarks/quantization/precision.py models/demo --data $(or $(DATA),.cache/demo-model/held_out.jsonl) --out $(CARD_OUT)/precision.json $(MORE)
bench-predictions: ## the points that the plan predicts from, then how far the fit is from those of this repository
	@benchmarks/predictions/run.sh $(CARD_OUT)/predictions.jsonl $(MORE) && PYTHONPATH=lib/sizing/src python3 benchmarks/predictions/fit.py --table $(CARD_OUT)/predictions.md
bench-prefix-offload: ## first tokens from prefixes in host memory: PART=speed, checks or tensor-parallel TALKS, DOCUMENTS=traces SECONDS=480
	@benchmarks/prefix_offload/run.sh $(or $(PART),speed) $(or $(SECONDS),480) $(CARD_OUT)/prefix_offload $(TALKS) $(DOCUMENTS)
bench-sequence-parallel: ## prompts split over two GPUs: PART=probe, identity or prefill
	@benchmarks/sequence_parallel/on_card.sh $(or $(PART),prefill) $(CARD_OUT)/sequence_parallel $(MORE)
bench-tool-calls: ## tokens a second of forced tool calls, bound, free, and without a grammar
	@$(CARD) benchmarks/tool_calls/cost.py $(CARD_OUT)/tool_calls.jsonl --work $(CARD_OUT)/tool_calls
