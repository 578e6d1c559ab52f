# What a person runs. Everything here is safe to repeat and quick the second time.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# What the demo and the benchmarks need; the tests need more.
INTERPRETERS := datasets pytorch tensorflow
# What the demo trains with, of what can be had on this machine; further options of `tbd submit` for it.
FRAMEWORKS ?= pytorch tensorflow
OPTIONS ?=
# MXNet and Horovod exist for Python 3.11, CNTK for 3.6: they are built and tested where there is one.
PYTHON311 = $(shell $(PYTHON) -m workers.node.pythons 3.11)
PYTHON36 = $(shell $(PYTHON) -m workers.node.pythons 3.6)

# All tests, in two processes; the slowest are named.
WHOLE := -n 2 --dist loadgroup --no-loadscope-reorder --durations=15 --durations-min=5

# What holds of every model in every framework.
SUITE := $(patsubst %,tests/contract/test_%.py,every_cell models overfitting learned_photographs convergence checkpoints \
	rank_checkpoints checkpoint_precisions precisions precision_parity tensorflow_casts switches adapters strategies \
	mpi_strategies frozen_replicas optimizers updates regions where_batches_lie profiles profiles_models profiles_ranks \
	profiles_pytorch profiles_tensorflow profiles_mxnet profiles_cntk) \
	$(patsubst %,tests/integration/test_%.py,convergence_runs resumed_runs largest_batches)

.PHONY: help succession schedules-year seeded-faults demo nightly-demo gate-demo gate-aa pytorch-pythons test test-changed test-all lint unit bench faults coverage gate-figures own-scripts test-horovod-pytorch cluster scaling s-sgd deploy-check suite-check fuzz openapi matrix gpu-check cuda-names pytorch-cuda12 announce-downloads setup system-packages interpreters test-interpreters browser clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 20

demo: announce-downloads setup ## everything once: set up, serve, measure one batch of suites/quick.yaml, print the table, write a report (FRAMEWORKS="pytorch tensorflow")
	@$(BIN)/python -m workers.node.interpreters install datasets
	@$(BIN)/python -m workers.node.interpreters install-some $(FRAMEWORKS)
	@$(BIN)/python deploy/demo.py $(FRAMEWORKS) -- $(OPTIONS)

nightly-demo: announce-downloads setup interpreters ## ten nights of a tiny suite on a fast clock, with bad luck, then the board (minutes; docs/read_results/nightly.md)
	@$(BIN)/python deploy/nightly_demo.py

gate-demo: announce-downloads setup ## fourteen nights of a model whose commit makes it slower, on a fast clock, until the regression gate has confirmed it and told a webhook (docs/read_results/gate.md)
	@$(BIN)/python -m deploy.gate_demo

# The worlds of tests/simulation are then the same each time.
test test-changed test-all: export PYTHONHASHSEED := 0

test: announce-downloads system-packages browser setup test-interpreters lint ## set up everything that is needed and run the tests: always the same ones (docs/build/tests.md)
	@$(BIN)/python -m pytest $(WHOLE)

test-changed: system-packages setup test-interpreters ## what `make test` leaves out and a difference can break: BASE=origin/main; without BASE all that is left to a change
	@$(BIN)/python -m pytest $(WHOLE) -m 'after_change and not thorough' $(if $(BASE),--changed-since='$(BASE)')

test-all: system-packages browser setup test-interpreters lint ## every test (hours)
	@$(BIN)/python -m pytest $(WHOLE) -m ""

unit: setup ## only the tests that need no framework and no server
	@$(BIN)/python -m pytest tests/unit tests/architecture

lint: setup ## style, types, import rules, Python 3.6 cleanness of the island; names what is long
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --check --quiet . && $(BIN)/mypy --no-error-summary && \
	$(BIN)/lint-imports --no-logo >/tmp/tbd-lint-imports.$$$$ 2>&1 || { cat /tmp/tbd-lint-imports.$$$$ 2>/dev/null; exit 1; }; \
	rm -f /tmp/tbd-lint-imports.$$$$; \
	$(BIN)/vermin -q --no-tips --violations -t=3.6- workers/trainer suites >/dev/null || { $(BIN)/vermin -t=3.6- workers/trainer suites; exit 1; }
	@$(BIN)/python -m tests.support.sizes

faults: setup interpreters ## the promises of docs/build/states.md under bad luck, for an hour or MINUTES=n: simulated worlds by seeds from SEED=n, and servers killed at every call
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.faults.hour $(or $(MINUTES),60) $(or $(SEED),$(shell date +%s))

succession: setup ## two servers on one PostgreSQL and one Ray, the one that leads killed every minute: is anything lost, and how soon is the next run placed (MINUTES=30)
	@$(BIN)/python -m tests.faults.succession --minutes $(or $(MINUTES),30)

bench: setup test-interpreters ## the ratios of docs/build/benchmarks.md, measured side by side on this machine (about 40 minutes, and hours for published networks and trainers, as their pilots say)
	@deploy/system_packages.sh wrk
	@$(BIN)/python -m bench.bench

test-horovod-pytorch: system-packages setup ## the tests of PyTorch's Horovod, which is built from source first (about five minutes)
	@deploy/system_packages.sh python3-dev
	@$(BIN)/python -m workers.node.interpreters install horovod-pytorch
	@$(BIN)/python -m pytest tests/contract/test_strategies.py tests/contract/test_checkpoints.py \
		tests/integration/test_horovod.py tests/integration/test_pytorch_profiled_runs.py -m "" -k "pytorch and horovod"

pytorch-pythons: setup ## PyTorch on Python 3.12 and 3.13 (up to 2.8 GB to download and 4.8 GB on disk for each, removed again): built, proved, tried
	@deploy/pytorch_pythons.sh

cluster: system-packages setup test-interpreters ## the tests on several hosts in full: every framework and strategy, as root (about 15 minutes)
	@$(BIN)/python -m pytest tests/cluster -m ""

deploy-check: system-packages setup ## the containers in full: images, every fault, a PyTorch job, by an engine of its own, as root (about 15 minutes)
	@$(BIN)/python -m pytest tests/deploy -m ""

suite-check: system-packages setup test-interpreters ## every cell of the suite in full: parity at tiny and small, learning by heart, convergence, checkpoints, ranks, profiles, largest batches (docs/build/tests.md has its time)
	@$(BIN)/python -m pytest $(WHOLE) -m "" $(SUITE)

matrix: system-packages setup test-interpreters ## every framework, strategy and topology on several hosts: the table of docs/use/matrix.md (about 20 minutes)
	@$(BIN)/python -m tests.cluster.matrix --out docs/use/matrix.md

scaling: system-packages setup test-interpreters ## suites/scaling.yaml in a small size on several hosts, as root: tables and figures of docs/read_results/scaling.md (about 20 minutes)
	@$(BIN)/python -m tests.cluster.scaling --out docs/read_results/scaling.md

s-sgd: system-packages setup test-interpreters ## the model of synchronous SGD held against what two hosts and replays on eight then measure, as root: figures of docs/read_results/s-sgd-model.md (about half an hour)
	@$(BIN)/python -m tests.cluster.s_sgd --out docs/read_results/s-sgd-model.md

fuzz: setup ## hold REST to its OpenAPI description by many more cases than the test does (minutes; EXAMPLES=100 SEED=1)
	@$(BIN)/python -m tests.support.openapi_fuzz $(if $(EXAMPLES),--examples $(EXAMPLES)) $(if $(SEED),--seed $(SEED))

schedules-year: setup ## a thousand schedules over a simulated year, beside an oracle that walks through it minute by minute (minutes)
	@$(BIN)/python -m bench.schedules_year

seeded-faults: setup ## break a copy of the product at places drawn by chance and see whether the tests notice (OPTIONS="--faults 50 --seed 1 --budget 3600 --jobs 1 --select '…'")
	@$(BIN)/python -m bench.seeded_faults $(OPTIONS)

openapi: setup ## record what is new in OpenAPI; BREAKING=1 records also what is removed or narrowed
	@$(BIN)/python -m tests.support.openapi_changes $(if $(BREAKING),--breaking)

coverage: setup ## how often the printed intervals hold the truth and equal cells are called different, by simulation (about half an hour of one core)
	@$(BIN)/python -m bench.figures

gate-aa: setup ## thirty real nights of nothing, in each of which the regression gate tries equal arms: its false alarms (an hour; MINUTES=n: shorter)
	@$(BIN)/python -m deploy.gate_aa

gate-figures: setup ## how often the regression gate cries wolf and what it sees, by simulation (about half an hour of one core)
	@$(BIN)/python -m bench.gate && $(BIN)/python -m bench.told

own-scripts: setup ## training scripts of other people as they stand, under tbd exec: nanoGPT, minGPT, Lightning, Trainer, Accelerate, FSDP2 (400 MB to download, about 10 minutes; NAMES="nanogpt")
	@$(BIN)/python -m workers.node.interpreters install pytorch
	@$(BIN)/python -m bench.own_scripts $(NAMES)

gpu-check: ## the checks that need a GPU, from a fresh clone with nothing but a driver: makes or finds its Python; SLICE=products|kernels|… (docs/operate/gpu_check.md; 77: no GPU)
	@python3 -m tests.gpu.environment $(SLICE)

cuda-names: setup ## every name of PyTorch's CUDA build that is used here, tried without a GPU: 2.7 GB to download, 5 GB on disk, removed afterwards
	@$(BIN)/python -m tests.gpu.wheels $(VERSION)

pytorch-cuda12: setup ## the same of the variant for drivers before CUDA 13: 4.1 GB to download, 7.4 GB on disk, removed afterwards
	@$(BIN)/python -m tests.gpu.lab.cuda12

announce-downloads:
	@$(if $(wildcard .venv/.ready),:,echo "tbd sets up its own environment in .venv: a download of about 290 MB.")

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "tbd needs Python 3.11 or newer on PATH (Debian 12: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv .venv 2>/tmp/tbd-venv.$$$$ || { cat /tmp/tbd-venv.$$$$; echo "apt-get install python3-venv" >&2; exit 1; }; rm -f /tmp/tbd-venv.$$$$
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

interpreters: setup
	@$(BIN)/python -m workers.node.interpreters install $(INTERPRETERS)

test-interpreters: setup
	@$(BIN)/python -m workers.node.interpreters install datasets
	@$(BIN)/python -m workers.node.interpreters install-some pytorch tensorflow
	@$(if $(PYTHON311),$(BIN)/python -m workers.node.interpreters install mxnet horovod,\
	echo "there is no Python 3.11 here: MXNet and Horovod are not tested (tbd frameworks install mxnet says how to get it)")
	@$(if $(PYTHON36),$(BIN)/python -m workers.node.interpreters install cntk,\
	echo "there is no Python 3.6 here: CNTK is not tested (tbd frameworks install cntk says how to get it)")

# Pages are tested in a browser where there is one.
browser:
	@deploy/system_packages.sh chromium || echo "there is no chromium here: what pages do in a browser is not tested"

# PostgreSQL for the tests of the store, openssl for certificates, OpenMPI for CNTK, a compiler for Horovod, iproute2 for
# the tests on several hosts, which need root as well; everything else comes from the Python registry.
system-packages:
	@deploy/system_packages.sh postgresql g++ openssl $(if $(filter 0,$(shell id -u)),iproute2) $(if $(PYTHON36),libopenmpi3 openmpi-bin)

clean: ## remove .venv and caches of this folder (not the frameworks' environments in ~/.cache/tbd)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
