# Every target sets up what it needs from nothing; with nothing changed that costs no time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Options of both test runs: two at a time, as there are kernels to compile. E.g. "-m 'not slow'".
PYTEST_FLAGS ?= -n 2

# Tests that only read files; the others in there take longer.
STRUCTURE := tests/test_architecture.py tests/test_documents.py tests/docs/test_site.py tests/docs/test_figures.py
CODE := hatch_build.py src tests docs $(wildcard benchmarks examples)
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt
# By environment as well, because -c alone does not reach the isolated build of this package.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.DEFAULT_GOAL := help
.PHONY: clean-kernels chromium help venv demo docs test check wire bench format clean wheel signatures

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | expand -t 15

venv: $(VENV)/dev.stamp  ## set up .venv

demo: $(VENV)/dev.stamp  ## show what it does, on built-in data
	$(BIN)/fedforest demo

# Tests of the dashboard drive the system's browser; where it cannot be installed they are skipped.
chromium:
	@command -v chromium >/dev/null || (apt-get -qq install -y chromium >/dev/null 2>&1 || true)

test: $(VENV)/dev.stamp chromium  ## run all tests, then the kernels' again as plain Python
	$(BIN)/python -m pytest $(PYTEST_FLAGS)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(PYTEST_FLAGS) tests/kernels

check: $(VENV)/dev.stamp  ## format, lint, types, import contracts, what documents name
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q -m structure $(STRUCTURE)

format: $(VENV)/dev.stamp  ## format the code and apply safe fixes
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

wire: $(VENV)/dev.stamp  ## pin what messages look like, once the changelog names the version
	$(BIN)/python -m tests.transport.wire

bench: $(VENV)/bench.stamp  ## compare with other libraries on one machine
	$(BIN)/python benchmarks/runs/real_tables.py
	$(BIN)/python benchmarks/runs/pooled.py
	$(BIN)/python benchmarks/runs/vertical.py
	$(BIN)/python benchmarks/runs/horizontal.py
	$(BIN)/python benchmarks/runs/federation.py
	$(BIN)/python benchmarks/runs/scale.py

docs: $(VENV)/docs.stamp  ## build the site in build/docs/html; any warning or broken link fails
	$(BIN)/python -m sphinx -b html -W --keep-going -q -d build/docs/doctrees docs build/docs/html
	$(BIN)/python -m docs.book.links build/docs/html

wheel: $(VENV)/dev.stamp  ## build a wheel that holds the kernels compiled, in dist/
	$(BIN)/python -m fedforest.kernels.compiled.shipping build/kernels
	FEDFOREST_KERNELS=build/kernels $(BIN)/python -m pip wheel --disable-pip-version-check -q --no-deps -w dist .

signatures: $(VENV)/dev.stamp  ## record which kernels trainings call, for `make wheel` and warm-up
	$(BIN)/python -m tests.signatures $(if $(KIND),"$(KIND)")

clean-kernels: $(VENV)/dev.stamp  ## forget the kernels compiled on this machine
	$(BIN)/python -m fedforest.kernels.compiled.shipping --forget

clean:  ## remove everything that make and the tools have built
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests $(wildcard benchmarks examples) -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/docs.stamp: $(VENV)/dev.stamp
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(PIP_INSTALL) -e '.[bench]'
	@touch $@
