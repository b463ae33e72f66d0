# Every habit of the project. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test test-deep soak check format bench docs golden interop clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  %-10s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --editable '.[spark,dev,duckdb]'
	@touch $@

install: $(STAMP) ## make the virtual environment

demo: $(STAMP) ## a pipeline on local Spark: late events, several clocks, a day at midnight, each checked
	@$(BIN)/python -m examples.demo

test: $(STAMP) ## run the tests (sample sizes)
	@$(BIN)/python tools/run_tests.py -m 'not deep and not hudi_jvm'

test-deep: $(STAMP) ## run all tests at full size
	@TIDELAKE_DEEP=1 $(BIN)/python -m pytest

soak: $(STAMP) ## run the random suites with fresh seeds for MINUTES (default 30)
	@$(BIN)/python tools/soak.py $(or $(MINUTES),30)

check: $(STAMP) ## lint, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP) ## format the code
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: $(STAMP) ## measure against floors and peers, print ratios
	@$(BIN)/python -m bench

docs: $(STAMP) ## build the documentation into site/
	@$(BIN)/python -m pip install --quiet '.[docs]'
	@$(BIN)/mkdocs build --strict --quiet

interop: $(STAMP) ## take turns with Apache Hudi itself (needs mvn and Java 17)
	@bash tests/golden/hudi_env.sh > /dev/null
	@TIDELAKE_REQUIRE_HUDI=1 $(BIN)/python -m pytest -m hudi_jvm tests/interop/jvm

golden: ## remake the golden tables with Apache Hudi (needs mvn and Java 17)
	@bash tests/golden/make_golden.sh

clean: ## remove what the targets made
	rm -rf $(VENV) var site .pytest_cache .mypy_cache .ruff_cache .hypothesis
