# Needs make and Python 3.11 or newer; everything else goes into .venv. `make help` lists the targets.

MAKEFLAGS += --no-builtin-rules --warn-undefined-variables
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Tests start hundreds of Python processes, and pytest rewrites what it imports: without bytecode that doubles their time.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
ARGS ?=
VERSION ?=

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 22
	@echo
	@echo '  ARGS="…" is given to pytest or the bench: make test ARGS="-k window -x"'

## Looking

.PHONY: demo
demo: $(STAMP) ## one claim, a thousand pods, no cluster: a minute, on planes of its own; ARGS=--keep leaves one running
	@$(BIN)/dra-reserve demo $(ARGS)

## Installing

.PHONY: venv
venv: $(STAMP) ## make .venv: the locked requirements and this tree, editable

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $$($(PYTHON) --version) is too old; name one from 3.11 on: make venv PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@$(call install,.venv,requirements/dev.txt)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Installs locked requirements ($(2)) in a virtual environment ($(1)) and prints a dot for each package: the first time takes
# minutes, and a user who sees nothing takes the command for stuck.
install = printf 'installing %d packages in %s, once; this takes minutes: ' "$$(grep -c '^[a-z].*==' $(2))" $(1); \
  $(1)/bin/python -u -m pip install --disable-pip-version-check --require-hashes -r $(2) \
  | { while read -r word _; do case $$word in Collecting) printf . ;; Installing) printf ' writing files' ;; esac; done; echo; }

.PHONY: lock
lock: $(STAMP) ## write requirements/*.txt anew from pyproject.toml; ARGS=--upgrade for newer versions
	$(LOCK) --output-file requirements/runtime.txt --extra node pyproject.toml $(ARGS)
	$(LOCK) --output-file requirements/dev.txt --extra node --extra dev --constraint requirements/runtime.txt pyproject.toml $(ARGS)
	$(LOCK) --output-file requirements/wire.txt requirements/wire.in $(ARGS)
	$(LOCK) --output-file requirements/docs.txt requirements/docs.in $(ARGS)
	$(LOCK) --output-file requirements/build.txt --only-build-deps --all-build-deps --constraint requirements/dev.txt \
	  pyproject.toml $(ARGS)

# --allow-unsafe: pip and setuptools are pinned as well, since hashes are required of everything or of nothing.
LOCK := CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
  --no-emit-options

.PHONY: wire
wire: $(STAMP) ## write dra/wire/messages/*_pb2.py anew from the .proto files there, with a compiler that is thrown away
	$(BIN)/python -m dra.wire.generate

.PHONY: sbom
sbom: $(STAMP) ## write deploy/sbom.cdx.json anew from requirements/runtime.txt
	$(BIN)/python -m release.sbom

.PHONY: dist
dist: $(STAMP) ## build sdist and wheel into dist, twice and equal, and try the wheel in a clean environment outside of the tree
	rm -rf dist
	$(BIN)/python -m release.distribution
	DRA_DISTRIBUTION=$(CURDIR)/dist $(BIN)/pytest tests/test_distribution.py $(ARGS)

DRY_RUN ?=

# `+`: make runs the line even with --dry-run, whose letter is in the first word of MAKEFLAGS. The plan is printed then.
.PHONY: release
release: $(STAMP) ## build all of a release into dist, upload nothing; --dry-run or DRY_RUN=1 shows steps and files, ARGS=… names steps
	+@$(BIN)/python -m release --base $(BASE) $(if $(DRY_RUN)$(findstring n,$(firstword -$(MAKEFLAGS))),--dry-run) $(ARGS)

.PHONY: try-release
try-release: $(STAMP) ## install kubectl dra with krew and the chart from a registry here, both from dist (Go; RELEASE=FOLDER)
	DRA_RELEASE=$(abspath $(RELEASE)) $(BIN)/pytest tests/release $(ARGS)

RELEASE ?= dist
BASE ?= python:3.13-slim-trixie
IMAGE ?= dra-reserve:0.1.0

.PHONY: image
image: ## build the image with docker, podman or buildah; BASE=…@sha256:… pins what cannot be pinned here, IMAGE=… names it
	@builder=$$(command -v docker || command -v podman || command -v buildah) || { \
	  echo "error: an image needs docker, podman or buildah on PATH" >&2; exit 1; }; \
	set -x; $$builder build --file deploy/Containerfile --build-arg BASE=$(BASE) \
	  --build-arg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) --tag $(IMAGE) $(ARGS) .

.PHONY: alerts
alerts: $(STAMP) ## write deploy/monitoring anew, and evaluate each alert on samples with promtool (Go; minutes the first time)
	$(BIN)/python -m release.monitoring
	DRA_PROMTOOL=build $(BIN)/pytest tests/release/test_monitoring.py $(ARGS)

.PHONY: prometheus
prometheus: $(STAMP) ## a real Prometheus scrapes our processes at work, and is asked for all that alerts and dashboard ask (Go)
	env -u KUBECONFIG DRA_CLUSTER=plane-stock $(BIN)/pytest tests/scenarios/monitoring $(ARGS)
	env -u KUBECONFIG DRA_CLUSTER=local $(BIN)/pytest tests/scenarios/page/test_idle_history.py $(ARGS)

.PHONY: chart
chart: $(STAMP) ## write deploy/helm/dra-reserve/values.schema.json anew from the configuration's model and the policies
	$(BIN)/python -m release.chart_schema

SITE := .build/docs-venv

.PHONY: docs
docs: $(SITE)/ready ## build the site of docs/ into .build/site, strictly: no broken link, no page outside of the menu
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict $(ARGS)
	@echo 'The site is in .build/site. Its search needs a web server: $(PYTHON) -m http.server --bind 127.0.0.1 --directory .build/site'

$(SITE)/ready: requirements/docs.txt
	$(PYTHON) -m venv --clear $(SITE)
	@$(call install,$(SITE),requirements/docs.txt)
	@touch $@

.PHONY: docs-reference
docs-reference: $(STAMP) ## write the generated pages of docs/reference anew
	$(BIN)/python -m dra.cli.reference

## Checking

.PHONY: check
check: lint contracts types test ## lint, contracts, types, test

.PHONY: lint
lint: $(STAMP) ## style: ruff check and ruff format --check
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: contracts
contracts: $(STAMP) ## layers: who may import what (import-linter)
	$(BIN)/lint-imports

.PHONY: types
types: $(STAMP) ## types: mypy --strict
	$(BIN)/mypy

.PHONY: shape
shape: $(STAMP) ## count callables, lambdas, large constructors, decisions and lines of controller (ARGS=COMMIT: before and after)
	$(BIN)/python -m tests.shape $(ARGS)

# CPU seconds of a quiet machine, in all processes (tests/cpu_time.py): what the tests take, and 15 % more; a disk costs a fifth.
DRA_CPU_BUDGET ?= $(if $(filter /dev/shm%,$(TMPDIR)),260,320)

# Tests make tens of thousands of small files and folders, for which a disk takes ten times as long as memory.
IN_MEMORY := $(shell [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'END {print $$4}')" -gt 1000000 ] && echo /dev/shm)
TMPDIR ?= $(or $(IN_MEMORY),/tmp)

.PHONY: test
test: $(STAMP) ## tests that need no cluster and no other program, on all cores; says what it leaves out
	TMPDIR=$(TMPDIR) DRA_CPU_BUDGET=$(DRA_CPU_BUDGET) $(BIN)/python -m tests.parts -n auto --dist worksteal \
	  -o tmp_path_retention_policy=failed -m 'not slow and not long' $(ARGS)

.PHONY: test-all
test-all: $(STAMP) ## all tests that need no cluster: Helm, kubectl, demos, pages too (Go, kubectl; ARGS="-m slow" for these only)
	$(BIN)/pytest $(ARGS)

.PHONY: test-page
test-page: $(STAMP) ## the page of kubectl dra ui in a real Chromium; writes the screenshots of docs/how-to/page (needs Chromium)
	DRA_SCREENSHOTS=docs/how-to/page $(BIN)/pytest tests/page $(ARGS)

.PHONY: simulate
simulate: $(STAMP) ## the whole system on virtual time under faults: 20,000 seeds, others each time (ARGS="--seeds 2000", ARGS=4711)
	$(BIN)/python -m tests.simulation $(ARGS)

.PHONY: simulate-migrations
simulate-migrations: $(STAMP) ## migrations on virtual time under faults: 2,000 seeds, others each time (ARGS="--seeds 200", ARGS=4711)
	$(BIN)/python -m tests.simulation.migrations $(ARGS)

.PHONY: simulate-colocation
simulate-colocation: $(STAMP) ## colocation on virtual time: nodes that lag and lie, kubelets, kernels: 2,000 seeds (ARGS="--seeds 200", ARGS=4711)
	$(BIN)/python -m tests.simulation.colocation $(ARGS)

.PHONY: simulate-descheduling
simulate-descheduling: $(STAMP) ## descheduling on virtual time: metrics that lag, migrations that fail: 1,000 seeds (ARGS="--seeds 200", ARGS=4711)
	$(BIN)/python -m tests.simulation.descheduling $(ARGS)

OLDER ?= HEAD

.PHONY: compare-seeds
compare-seeds: $(STAMP) ## 500 seeds on an older commit and on this tree: the same final states and writes by kind? (OLDER=COMMIT, ARGS=--help)
	$(BIN)/python -m tests.simulation.comparison --older $(OLDER) $(ARGS)

.PHONY: simulate-reservations
simulate-reservations: $(STAMP) ## Reservations and the extender on virtual time under faults: 100 histories (HISTORIES=0-1000)
	RESERVATION_HISTORIES=$(or $(HISTORIES),0-100) $(BIN)/pytest tests/controller/reservations/test_histories.py -s $(ARGS)

.PHONY: machine
machine: $(STAMP) ## the claim rules in a small model of a cluster: 20,000 histories (ARGS="--seeds 2000", ARGS=4711)
	$(BIN)/python -m tests.dra.engine.simulation $(ARGS)

.PHONY: allocator
allocator: $(STAMP) ## compare the allocator of devices with kube-scheduler's own: tables and 2,000 cases (Go; ARGS="--cases 9000 4711"; ARGS="--kubernetes 1.38" with GOTOOLCHAIN=go1.27.3)
	$(BIN)/python -m tests.allocator $(ARGS)
	$(BIN)/pytest tests/allocator

.PHONY: kube-scheduler
kube-scheduler: $(STAMP) ## build kube-scheduler 1.38 alone, which test_real_scheduler then tries too (Go, GOTOOLCHAIN=go1.27.3)
	$(BIN)/python -c 'from tests.cluster import binaries as b; print(b.build(b.kube_scheduler()))'

.PHONY: allocator-scheduler
allocator-scheduler: $(STAMP) ## the same questions to a running kube-scheduler 1.37, as objects in a cluster (ARGS="--cases 9000 4711")
	$(BIN)/python -m tests.allocator --scheduler $(ARGS)

.PHONY: simulate-scheduler
simulate-scheduler: $(STAMP) ## compare what simulate and a running kube-scheduler say of 2,100 pods (ARGS="--record" for the tests)
	$(BIN)/python -m tests.allocator.pods $(ARGS)

.PHONY: descheduler-peer
descheduler-peer: $(STAMP) ## ask the community's descheduling plugins 0.36 about 600 clusters anew (Go), and compare ours with them
	$(BIN)/python -m tests.descheduler_peer --record

.PHONY: descheduler-peer-cluster
descheduler-peer-cluster: $(STAMP) ## let the community's descheduler evict from an API server, and compare: 40 clusters (ARGS="0 200")
	$(BIN)/python -m tests.descheduler_peer --binary $(ARGS)

.PHONY: low-node-load
low-node-load: $(STAMP) ## compare LowNodeLoad with koord-descheduler's own on 200 clusters (Go; ARGS="--cases 900 4711")
	$(BIN)/python -m tests.low_node_load $(ARGS)

.PHONY: mutants
mutants: $(STAMP) ## change random lines of engine and controller, report which changes no test finds: 20 minutes (ARGS="--minutes 60")
	$(BIN)/python -m tests.mutants $(ARGS)

.PHONY: test-deep
test-deep: $(STAMP) ## the properties of the engine with 20,000 examples each (hours)
	HYPOTHESIS_PROFILE=deep $(BIN)/pytest tests/dra/engine $(ARGS)

.PHONY: binaries
binaries: export DRA_KUBERNETES := $(VERSION)
binaries: $(STAMP) ## build the Kubernetes of test-cluster, as far as that is not done (Go; with an empty Go cache half an hour on two cores, and it says how far it is)
	$(BIN)/python -m tests.cluster.binaries

.PHONY: kubernetes
kubernetes: $(STAMP) ## what is left to do until CI runs a version of Kubernetes: make kubernetes VERSION=1.38
	@$(BIN)/python -m tests.kubernetes_versions $(VERSION)

.PHONY: test-cluster
test-cluster: export DRA_KUBERNETES := $(VERSION)
test-cluster: $(STAMP) ## scenarios on a real Kubernetes: one built here (Go, kubectl; VERSION=1.35), or KUBECONFIG=… any
# One that is in the environment may be anybody's.
ifneq ($(origin KUBECONFIG),command line)
	$(BIN)/python -m tests.cluster.binaries
	env -u KUBECONFIG DRA_CLUSTER=local $(BIN)/pytest tests/scenarios $(ARGS)
else
	DRA_CLUSTER=existing $(BIN)/pytest tests/scenarios $(ARGS)
endif

.PHONY: test-plane
test-plane: API = stock kep
test-plane: $(STAMP) ## the same scenarios on our own control plane, --api stock and kep (API=kep), with kwok's nodes (Go, kubectl)
	for api in $(API); do env -u KUBECONFIG DRA_CLUSTER=plane-$$api $(BIN)/pytest tests/scenarios $(ARGS) || exit; done

.PHONY: test-upgrade
test-upgrade: export DRA_KUBERNETES := $(VERSION)
test-upgrade: $(STAMP) ## a live cluster goes to the newest Kubernetes and back under claims; schedulers of two versions (Go; 15 minutes)
	env -u KUBECONFIG DRA_CLUSTER=local $(BIN)/pytest tests/scenarios/upgrades tests/scenarios/test_two_schedulers.py $(ARGS)

.PHONY: test-older-build
test-older-build: OLDER =
test-older-build: export DRA_OLDER = $(OLDER)
test-older-build: $(STAMP) ## an older build beside this one, and back: processes, checkpoints, names (OLDER=COMMIT, any of the history; minutes)
	$(BIN)/pytest tests/older_build $(ARGS)

## Measuring

.PHONY: bench-page
bench-page: $(STAMP) ## the page with 5,000 nodes and 50,000 pods: first view, updates, memory (needs Chromium)
	$(BIN)/python -m bench.page $(ARGS)

.PHONY: bench-page-kubernetes
bench-page-kubernetes: $(STAMP) ## the page in a cluster, on a real kube-apiserver with 50,000 pods (Go, kubectl, Chromium)
	$(BIN)/python -m bench.page_kubernetes $(ARGS)

.PHONY: bench-world
bench-world: $(STAMP) ## 10,000 pods on one claim: time, memory, events per second
	$(BIN)/python -m bench.world $(ARGS)

.PHONY: bench-memory
bench-memory: $(STAMP) ## the controller beside kube-controller-manager on 100,000 pods of a real cluster: memory, CPU (Go; 10 minutes; 8 GiB)
	$(BIN)/python -m bench.memory $(ARGS)

.PHONY: bench-plane
bench-plane: $(STAMP) ## the local plane: 10,000 pods created, listed, patched, watched by 100
	$(BIN)/python -m bench.plane $(ARGS)

.PHONY: bench-explain
bench-explain: $(STAMP) ## kubectl dra on 10,000 pods, 2,000 claims and 1,000 nodes: seconds and memory of each command
	$(BIN)/python -m bench.explain $(ARGS)

.PHONY: bench-plugin
bench-plugin: $(STAMP) ## the kubelet plugin: calls over its socket, 1,024 devices published, what idling costs (minutes; ARGS=--peer)
	$(BIN)/python -m bench.plugin $(ARGS)

.PHONY: bench-node-usage
bench-node-usage: $(STAMP) ## what sampling the use of a node and 110 pods costs (root: on real cgroups)
	$(BIN)/python -m bench.node_usage $(ARGS)

.PHONY: bench-join
bench-join: $(STAMP) ## pods per second that join one claim, on a real Kubernetes, stock and ours (needs Go; minutes)
	$(BIN)/python -m bench.join $(ARGS)

.PHONY: bench-reservations-placed
bench-reservations-placed: $(STAMP) ## Reservations placed per second, and what each costs (needs Go; DRA_KOORDINATOR=FOLDER: beside koord-scheduler)
	$(BIN)/python -m bench.placed $(ARGS)

.PHONY: bench-translation
bench-translation: $(STAMP) ## pods in Koordinator's form on a real Kubernetes: pods per second, and the policies' cost (needs Go; half an hour)
	$(BIN)/python -m bench.translation $(ARGS)

.PHONY: bench-migrations
bench-migrations: $(STAMP) ## the descheduler's arbitration: 5,000 jobs that wait over 100,000 pods
	$(BIN)/python -m bench.migrations $(ARGS)

.PHONY: bench-colocation
bench-colocation: $(STAMP) ## batch resources of 5,000 nodes with 150,000 pods: memory of the loop, and what reports cost
	$(BIN)/python -m bench.colocation $(ARGS)

.PHONY: bench-descheduling
bench-descheduling: $(STAMP) ## a round of the descheduler over 5,000 nodes and 100,000 pods, with all plugins (ARGS=--profile)
	$(BIN)/python -m bench.descheduling $(ARGS)

.PHONY: bench-beside
bench-beside: $(STAMP) ## decisions on claims beside scheduling by load and rounds of descheduling, 5,000 nodes and 100,000 pods (minutes)
	$(BIN)/python -m bench.beside $(ARGS)

.PHONY: bench-running
bench-running: $(STAMP) ## 110 pods with a CPU each on a real kubelet, beside a driver in Go: time until all run (root, Go; minutes)
	$(BIN)/python -m bench.running $(ARGS)

## Tidying

.PHONY: clean
clean: ## remove .venv and all caches; the test cluster's binaries (.build) stay, they take minutes to build
	rm -rf .venv dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
