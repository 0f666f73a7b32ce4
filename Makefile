# Two commands are enough: `make up` and `make test`. The rest serves those who change Rota.
# Needs Python 3.11 or newer, pip and make. Everything else is installed here: Python packages into .venv,
# the databases that the tests start (PostgreSQL, etcd) by apt where this user may do that; stock Kubernetes and
# Helm are built from their Go modules where Go is there, once, into ~/.cache/rota.
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
  --no-emit-find-links --no-header --extra postgres --extra etcd
WORKERS ?= 2
# Tests of one file share what they start: a worker takes a long row of tests, and takes over from the others at the end.
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist worksteal
ARGS ?=

.PHONY: help install system up test check soak fuzz format bench lock proto clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## put `rota` and the development tools into .venv/bin

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

# Debian keeps the part of Python that puts pip into an environment in a package of its own: ours then does it.
define environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "Rota needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }; \
$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || \
  { $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade \
    --target "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" pip; }
endef

system: ## get what the tests start: databases (root, apt) and stock Kubernetes and Helm (Go); says what is missing
	@bash scripts/install-system-parts
	@bash scripts/build-kubernetes
	@bash scripts/build-helm

up: $(RUNTIME_STAMP) ## start Rota on this machine
	$(BIN)/rota up $(ARGS)

test: install system ## run every test
	$(PYTEST) $(ARGS)

check: install ## format, lint, types, layers, fast tests: about four minutes
	$(BIN)/ruff format --check src tests scripts benchmarks
	$(BIN)/ruff check src tests scripts benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -m "not slow and not postgres and not etcd and not stock" -q $(ARGS)

soak: install system ## hurt a cluster at random while tasks run (root); ARGS="--minutes 10 --seed 7 --store postgres"
	$(BIN)/python scripts/soak $(ARGS)

fuzz: install ## run the tests that draw examples with random ones; ARGS="--hypothesis-seed=7 tests/client"
	ROTA_FUZZ_BODIES=$${ROTA_FUZZ_BODIES:-10000} $(PYTEST) -m hypothesis --hypothesis-profile=random --timeout 1800 $(ARGS)

format: install ## rewrite the code in the house format
	$(BIN)/ruff format src tests scripts benchmarks
	$(BIN)/ruff check --fix src tests scripts benchmarks

bench: install system ## measure; figures as ratios from one run
	$(BIN)/python scripts/bench $(ARGS)

lock: install ## resolve the pinned versions anew
	$(COMPILE) --group dev --output-file $(LOCK) pyproject.toml
	$(COMPILE) --group build --constraints $(LOCK) --output-file $(RUNTIME_LOCK) pyproject.toml

proto: install ## compile etcd's messages anew after a change of etcd.proto
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src src/rota/store/backends/etcd/etcd.proto

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
