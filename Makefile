# Two commands do everything on a machine with Python >= 3.11 and make:  make demo   make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RECIPE ?= dates
RUN ?= runs/demo
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: setup setup-dev demo test lint types tests docs format bench experiments clean

setup: $(VENV)/.core
setup-dev: $(VENV)/.dev

$(VENV)/.python:
	$(PYTHON) -c 'import sys; sys.exit("weft needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	touch $@

# torch first, by its exact version: a range would be free to choose another build
$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	@echo "installing weft into $(VENV) (once, a few minutes)"
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) -e '.[metrics,plots]'
	touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing the development packages"
	$(PIP) -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/weft demo --recipe $(RECIPE) --run $(RUN)

test: lint types tests docs

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: setup-dev
	$(BIN)/pyright

tests: setup-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

# into site/, without a network; a warning is an error (with --quiet, MkDocs would not count warnings)
docs: setup-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

format: setup-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup-dev
	$(BIN)/python -m benchmarks

experiments: setup-dev
	$(BIN)/python -m benchmarks.figures

clean:
	rm -rf $(VENV) dist build site .pytest_cache .ruff_cache .hypothesis
