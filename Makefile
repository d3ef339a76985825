# Every command a person or CI runs. `make` alone lists them.
#
# Everything is built in the profile `quick`, and Cargo's settings are the same in every step, so that nothing is
# compiled twice. CARGO_TARGET_DIR, PIP_* and CARGO_* of the environment are respected.

VENV := .venv
BIN := $(VENV)/bin
PROFILE := quick
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# What maturin sets for its build of the extension; set for all, or pyo3 would be built anew at every turn.
export PYO3_PYTHON := $(abspath $(BIN)/python)
export PYO3_BUILD_EXTENSION_MODULE := 1
export VIRTUAL_ENV := $(abspath $(VENV))
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH

CARGO := cargo
CARGO_TEST := $(CARGO) test --profile $(PROFILE) --locked
CLIPPY := $(CARGO) clippy --profile $(PROFILE) --locked
# Rules 29 and 30 of the house: what may fail in net and py returns an error. Tests may unwrap.
NO_PANIC := -D warnings -D clippy::unwrap_used -D clippy::expect_used -D clippy::panic -D clippy::unreachable \
	-D clippy::indexing_slicing -D clippy::todo -D clippy::unimplemented

.NOTPARALLEL:
.PHONY: help demo test core net py fmt lint rust types pythons test-pythons pytest build bench wheels clean need need-lints

help: ## this list
	@echo "Commands:"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1#\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'#' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: build ## build, install, and show every scenario against the embedded server
	@$(BIN)/python examples/demo.py

test: lint rust types test-pythons pytest ## everything CI runs, with all of its own set-up

core: ## the inner loop of src/core: its tests
	$(CARGO_TEST) -p steadycall-core

net: ## the inner loop of src/net: its tests
	$(CARGO_TEST) -p steadycall-net

py: build $(VENV)/.dev ## the inner loop of src/py and python/steadycall: build, then the quick Python tests
	$(BIN)/python -m pytest -q -x -m "not slow" --ignore=tests/sdks --ignore-glob="*/test_hazards_*" \
		--ignore-glob="*_laws.py" $(ARGS)

fmt: $(VENV)/.dev ## format Rust and Python
	$(CARGO) fmt --all
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

lint: $(VENV)/.dev need-lints ## formats and lints of both languages
	$(CARGO) fmt --all --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(CLIPPY) --workspace --all-targets -- -D warnings
	$(CLIPPY) -p steadycall-net -p steadycall-py --lib --no-deps -- $(NO_PANIC)

rust: need ## the tests of both Rust crates
	$(CARGO_TEST) -p steadycall-core -p steadycall-net

types: build $(VENV)/.dev ## mypy --strict, and the stub of the native module against the module itself
	$(BIN)/mypy
	cd python && $(abspath $(BIN))/stubtest --mypy-config-file ../pyproject.toml steadycall._native

test-pythons: build $(VENV)/.dev ## the same wheel under each other Python of this machine
	$(BIN)/python tools/pythons.py --profile $(PROFILE)

pytest: build $(VENV)/.sdks ## the Python tests, those with real SDKs too, docs samples and layer test
	$(BIN)/python -m pytest

build: $(VENV)/.build ## build the native module and install the package into .venv, editable
	@PIP_QUIET=1 $(BIN)/maturin develop --quiet --locked --profile $(PROFILE)

bench: $(VENV)-bench/.ready ## measure against pure Rust and the rivals; writes benches/RESULTS.md
	VIRTUAL_ENV=$(abspath $(VENV)-bench) $(VENV)-bench/bin/maturin develop --quiet --locked --release
	$(VENV)-bench/bin/python benches/bench.py $(ARGS)

wheels: $(VENV)/.build ## release wheels for Linux into dist/, for every target whose Rust library is installed
	@$(BIN)/python tools/wheels.py

clean: ## remove what was built, the virtual environments too
	$(CARGO) clean
	rm -rf $(VENV) $(VENV)-* dist .mypy_cache .ruff_cache .pytest_cache .hypothesis python/steadycall/_native*.so

# Set-up. A missing tool ends make with one line that says what to install.
missing = $(shell sh tools/need.sh "$(PYTHON)" $(1))
stop_if = $(if $(1),$(error $(1)))

need:
	@$(call stop_if,$(call missing))
need-lints:
	@$(call stop_if,$(call missing,lints))

PIP = -m pip install --quiet --disable-pip-version-check

$(VENV)/.build: requirements-dev.txt | need
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) -c requirements-dev.txt maturin
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.build
	$(BIN)/python $(PIP) -r requirements-dev.txt
	@touch $@

$(VENV)/.sdks: requirements-sdks.txt $(VENV)/.dev
	$(BIN)/python $(PIP) --no-deps --no-compile -r requirements-sdks.txt
	@touch $@

$(VENV)-bench/.ready: benches/requirements.txt requirements-dev.txt | need
	$(PYTHON) -m venv --clear $(VENV)-bench
	$(VENV)-bench/bin/python $(PIP) -c requirements-dev.txt maturin
	$(VENV)-bench/bin/python $(PIP) -r benches/requirements.txt
	@touch $@
