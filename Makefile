# Users need `make up` and `make test`; the other targets are for developers of Rota.
# Needs Python 3.11 or newer, pip and make. Python packages are installed into .venv. The databases of the tests
# (PostgreSQL, etcd) are installed by apt if this user may do that. Stock Kubernetes and Helm are built once from their
# Go modules into ~/.cache/rota if Go is installed.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.lock
RUNTIME_LOCK := requirements/runtime.lock
STAMP := $(VENV)/.installed
RUNTIME_STAMP := $(VENV)/.installed-runtime
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-emit-find-links --no-header --extra postgres --extra etcd --extra lua
# Tests start `rota` thousands of times: the modules are compiled once, not in each process.
unexport PYTHONDONTWRITEBYTECODE
WORKERS ?= 2
# Tests of one file share fixtures: pytest's workers take long runs of tests and steal work at the end.
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist worksteal
ARGS ?=

.PHONY: help install system up test check soak faults fuzz scenarios peers format bench lock proto clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## install `rota` and the development tools into .venv

$(STAMP): $(LOCK) pyproject.toml
	@$(call environment)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(RUNTIME_STAMP)

$(RUNTIME_STAMP): $(RUNTIME_LOCK) pyproject.toml
	@$(call environment)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(RUNTIME_LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# On Debian, ensurepip is a separate package: without it, the system's pip installs pip into the environment.
define environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "Rota needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }; \
$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || \
  { $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade \
    --target "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" pip; }
endef

system: ## install databases (root, apt) and build stock Kubernetes and Helm (Go) for the tests
	@bash scripts/install-system-parts
	@bash scripts/build-kubernetes
	@bash scripts/build-helm

up: $(RUNTIME_STAMP) ## run a cluster on this machine
	$(BIN)/rota up $(ARGS)

test: install system ## run all tests
	$(PYTEST) $(ARGS)

check: install ## format, lint, types, import contracts, fast tests: about four minutes
	$(BIN)/ruff format --check src tests scripts benchmarks
	$(BIN)/ruff check src tests scripts benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -m "not slow and not postgres and not etcd and not stock" -q $(ARGS)

soak: install system ## inject random faults into a cluster while tasks run (root); ARGS="--minutes 10 --seed 7 --store postgres" or ARGS="--federation" or ARGS="--schedulers 8"
	$(BIN)/python scripts/soak $(ARGS)

faults: install ## inject random faults into clusters in virtual time; SEEDS=1000 FIRST=0
	$(BIN)/python scripts/faults --seeds $${SEEDS:-100} --first $${FIRST:-0} --processes $(WORKERS)

fuzz: install ## run property tests with random examples; ARGS="--hypothesis-seed=7 tests/client"
	ROTA_FUZZ_BODIES=$${ROTA_FUZZ_BODIES:-10000} $(PYTEST) -m hypothesis --hypothesis-profile=random --timeout 1800 $(ARGS)
	ROTA_FUZZ_RULES=$${ROTA_FUZZ_RULES:-2000} ROTA_FUZZ_PODS=$${ROTA_FUZZ_PODS:-2000} ROTA_FUZZ_SEED=$${ROTA_FUZZ_SEED:-$$RANDOM} \
		$(PYTEST) -m slow --timeout 3600 tests/stock/test_same_rules.py tests/stock/test_same_pod_security.py

scenarios: install ## run the scenarios of docs/reference/batch-scenarios.md, in virtual time and with real processes
	ROTA_SCENARIOS=1 $(BIN)/pytest -n0 $(ARGS) tests/scheduler/batch_scenarios

peers: install ## build Volcano's programs (Go), and run them with ours
	@bash scripts/build-volcano
	ROTA_PEERS=1 $(BIN)/pytest -n0 $(ARGS) tests/peers

format: install ## format the code
	$(BIN)/ruff format src tests scripts benchmarks
	$(BIN)/ruff check --fix src tests scripts benchmarks

bench: install system ## run the benchmarks, as ratios to references of the same run
	$(BIN)/python scripts/bench $(ARGS)

lock: install ## update the pinned versions
	$(COMPILE) --group dev --output-file $(LOCK) pyproject.toml
	$(COMPILE) --group build --constraints $(LOCK) --output-file $(RUNTIME_LOCK) pyproject.toml

proto: install ## compile etcd.proto
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src src/rota/store/backends/etcd/etcd.proto

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
