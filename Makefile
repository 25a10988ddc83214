# Each target first sets up .venv, once and again when pyproject.toml or constraints.txt change.
#
#   make demo TEXT="compare resnet18 vs resnet34"    TEXT is handed on as it is, ARGS as words of the shell:
#   make test ARGS="tests/lab -k ledger"
#
# Messages of the set-up go to standard error, so that `make -s bench > bench.json` holds JSON alone.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help .venv demo test lint bench upgrade-test chaos chaos-outage clean

# From the environment, never pasted into a command: a request may hold quotes, dollars and semicolons.
override TEXT := $(value TEXT)
export TEXT

PYTHON ?=
VENV := .venv
READY := $(VENV)/.ready
RUN := $(VENV)/bin/python

help: ## what there is to make
	@awk -F ':.*## ' '/^[.a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

.venv: $(READY) ## the virtual environment alone, with .venv/bin/overnight in it

demo: $(READY) ## everything on one machine, no card, Slack or key needed: ask, run, report
	@if [ -n "$$TEXT" ]; then exec $(VENV)/bin/overnight demo $(ARGS) -- "$$TEXT"; fi; exec $(VENV)/bin/overnight demo $(ARGS)

test: $(READY) ## every test
	@$(RUN) -m pytest $(ARGS)

lint: $(READY) ## ruff's lint and format, strict types
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

bench: $(READY) ## speed and memory, as one JSON document
	@$(RUN) tests/bench/run.py $(ARGS)

upgrade-test: $(READY) ## moves live runs of an earlier revision (FROM=v0.1.0) to this one, as one JSON document
	@$(RUN) tests/upgrade/run.py $(ARGS)

chaos: $(READY) ## kills parts of a running lab at random: KILLS=200, SEED=1, STATE=file to add calls up
	@KILLS="$(KILLS)" SEED="$(SEED)" STATE="$(STATE)" $(RUN) -m tests.chaos.kills

chaos-outage: $(READY) ## takes Valkey away from a running lab: SECONDS="8 40 300", LEASE_S=20, HOW="stop kill"
	@SECONDS="$(SECONDS)" LEASE_S="$(LEASE_S)" HOW="$(HOW)" $(RUN) -m tests.chaos.outage

clean: ## removes what the targets left, apart from .venv
	rm -rf build demo-out bench-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# flock, where the machine has it, keeps two makes in one checkout apart; the second finds the first one's work done.
$(READY): pyproject.toml constraints.txt
	@export PYTHON="$(PYTHON)" READY="$(READY)" VENV="$(VENV)"; \
	if command -v flock >/dev/null; then exec flock pyproject.toml bash deploy/venv.sh; else exec bash deploy/venv.sh; fi
