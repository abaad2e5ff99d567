# Two commands serve a fresh clone: `make test` and `make demo`. `make check` is what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# What the commands need, and what the tests need beyond that: hundreds of megabytes that the demo does not wait for.
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.installed
SITE := $(VENV)/.site
# As many test processes as processors, and one thread in each: more would wait for each other.
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal

# Tests start many processes, and each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install test demo check docs format clean
.DELETE_ON_ERROR:

install: $(STAMP)

$(RUNS): pyproject.toml paper/pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e '.[report,serve]' -e ./paper
	@touch $@

$(STAMP): $(RUNS)
	$(PIP) -e '.[dev]'
	@touch $@

test: $(STAMP)
	$(TEST) -m 'not slow'

demo: $(RUNS)
	$(BIN)/natpn demo --out demo

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@# Types are checked while tests wait for sockets and processes.
	$(BIN)/mypy >$(VENV)/mypy.log 2>&1 & types=$$!; $(TEST); tests=$$?; wait $$types || tests=1; cat $(VENV)/mypy.log; exit $$tests

$(SITE): $(RUNS)
	$(PIP) -e '.[docs]'
	@touch $@

docs: $(SITE)
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python tools/check_links.py docs/_build/html

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist docs/_build
