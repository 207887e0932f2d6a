# `make demo` and `make test` do all the set-up on a machine with Python 3.11 or newer, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow feature-space fuzz soak mutation lint generate bench clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m slow

feature-space: $(STAMP)
	$(BIN)/python -m tests.feature_space --state .feature-space

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --seconds 600

soak: $(STAMP)
	$(BIN)/python -m tests.soak --seconds 120

mutation: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutation]'
	$(BIN)/python -m tests.mutation --workers 2

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/black --check --quiet generator runtime generated tests examples
	$(BIN)/mypy generator/dispatchgen runtime/dispatch_runtime generated/torchdispatch examples
	$(BIN)/lint-imports
	$(BIN)/dispatchgen check

generate: $(STAMP)
	$(BIN)/dispatchgen generate

bench: $(STAMP)
	$(BIN)/python -m benchmarks.dispatch
	$(BIN)/python -m benchmarks.generator
	$(BIN)/python -m benchmarks.collectives
	$(BIN)/python -m benchmarks.training

clean:
	rm -rf $(VENV) build dist

# torch is pinned for development, see pyproject.toml; README.md says how to work with a torch of your own.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(STAMP)
