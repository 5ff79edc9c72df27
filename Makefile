# Every job sets the machine up first if need be: `make demo` on a fresh clone is enough. `make` alone lists the jobs.
SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first Python that is new enough and not too new; name another with PYTHON=...
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	if $$name -c '$(SUITABLE)' >/dev/null 2>&1; then echo $$name; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
PINS := pyproject.toml requirements/cpu.txt requirements/dev.txt requirements/gpu.txt requirements/install.py
STAMP := $(VENV)/.installed-$(shell cat $(PINS) | git hash-object --stdin)
PACKAGES := search policy value training app
LINKS := $(addprefix build/typing/treewise/,$(PACKAGES))
# Code that is checked but not part of the package
SURROUNDINGS := tests benchmarks requirements

# The questions that `make bench` answers, one after the other
BENCHMARKS ?= $(filter-out __init__ engine_peers math_by_hand statistics worlds world_models peer_crucible peer_its_hub peer_knobs peer_llm_reasoners peer_meter peer_treequest,$(basename $(notdir $(wildcard benchmarks/*.py))))

# Arguments for pytest: make test PYTEST_ARGS="tests/unit -x"
PYTEST_ARGS ?=
DEMO_ARGS ?= --task countdown --generate 24 --numbers 4 --split test --method mcts --policy vllm \
	--simulations 32 --tokens 2000 --seed 0

.PHONY: help setup demo test lint format types contracts bench wheel clean

help:
	@echo "make demo       set up, then solve Countdown problems by tree search with a real vLLM engine"
	@echo "make test       set up, then run all tests"
	@echo "make lint       style (make format mends what can be mended)"
	@echo "make types      mypy, strict"
	@echo "make contracts  who may import whom"
	@echo "make bench      all benchmarks, one after the other"
	@echo "make wheel      build dist/treewise-*.whl"
	@echo "make clean      remove the environment and everything built"

setup: $(STAMP)

$(STAMP):
	@if [ -z "$(PYTHON)" ]; then echo "set-up: no Python 3.11 to 3.13 was found (python3 here:" \
		"$$(python3 --version 2>&1 || true)). Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; fi
	@$(PYTHON) requirements/install.py $@

demo: $(STAMP)
	$(BIN)/treewise solve $(DEMO_ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) $(LINKS)
	$(BIN)/mypy
	$(BIN)/mypy requirements/install.py

build/typing/treewise/%:
	@mkdir -p $(@D)
	ln -sfn ../../../$* $@

contracts: $(STAMP)
	$(BIN)/lint-imports --no-cache

bench: $(STAMP)
	@set -e; for name in $(BENCHMARKS); do echo "--- $$name"; $(BIN)/python -m benchmarks.$$name; done

# What an earlier build left in build/lib would go into the wheel.
wheel: $(STAMP)
	rm -rf build/lib build/bdist.*
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find $(PACKAGES) $(SURROUNDINGS) -name __pycache__ -type d -prune -exec rm -rf {} +
