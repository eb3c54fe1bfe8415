# Two commands do everything on a machine with Python >= 3.11 and make:  make demo   make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LATEST := .venv-latest
RECIPE ?= dates
RUN ?= runs/demo
PIP := -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --no-compile
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: setup setup-dev lock demo test test-fast test-latest lint types tests durations docs format bench experiments clean

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
	@$(BIN)/python $(PIP) check > /dev/null || $(BIN)/python $(INSTALL) -c requirements/core.lock -e '.[metrics,plots]'
	touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.lock
	@echo "installing the development packages"
	$(BIN)/python $(INSTALL) --no-deps -r requirements/dev.lock
	@$(BIN)/python $(PIP) check > /dev/null || $(BIN)/python $(INSTALL) -c requirements/dev.lock -e '.[dev]'
	touch $@

# the newest versions that pyproject.toml allows, into requirements/*.lock
lock: $(VENV)/.python
	$(BIN)/python tools/lock.py

demo: setup
	$(BIN)/weft demo --recipe $(RECIPE) --run $(RUN)

# pyright and the documentation run beside the tests
test: lint
	@$(MAKE) --no-print-directory -j 2 types tests

# everyday: without tests that are marked slow or that took longer than tests/durations.json allows
test-fast: setup-dev
	$(PYTEST) -m "not slow"

# the newest allowed versions in an environment of their own, and a part of the tests that touches every dependency
test-latest:
	rm -rf $(LATEST)
	$(PYTHON) -m venv $(LATEST)
	$(LATEST)/bin/python $(INSTALL) -c requirements/constraints.txt -e '.[dev]'
	$(LATEST)/bin/python $(PIP) list
	$(LATEST)/bin/python -m pytest -n 2 -m smoke

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: setup-dev
	$(BIN)/pyright

tests: setup-dev
	$(PYTEST) --durations=20

# measures every test again and writes those that are slow into tests/durations.json
durations: setup-dev
	$(PYTEST) --record-durations

format: setup-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup-dev
	$(BIN)/python -m benchmarks

experiments: setup-dev
	$(BIN)/python -m benchmarks.figures

clean:
	rm -rf $(VENV) $(LATEST) dist build .pytest_cache .ruff_cache .hypothesis
