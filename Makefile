# One vocabulary for people, hooks and CI. `make` lists it.
.DEFAULT_GOAL := help
.PHONY: help setup repro experiments test test-slow lint scale ui benchmark lock
SHELL := bash
PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
# Everything below runs in the project's own environment, whatever else is active.
RUN := env -u VIRTUAL_ENV PATH="$(BIN):$$PATH" PYTHONPATH=src
# make dies, so must dvc, and with it the stage that it runs.
DVC := $(shell command -v setpriv >/dev/null && echo setpriv --pdeathsig TERM) dvc
PORT ?= 5000

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: .venv/.installed ## the environment, from the hash-pinned requirements.lock

# Written last, so that a killed install is begun again.
.venv/.installed: requirements.lock requirements-uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"Python 3.11 or newer is needed, found {sys.version.split()[0]}: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear .venv
	@command -v uv >/dev/null || .venv/bin/pip install --quiet --require-hashes -r requirements-uv.lock
	PATH="$(BIN):$$PATH" uv pip install --quiet --python .venv/bin/python --require-hashes -r requirements.lock
	PATH="$(BIN):$$PATH" uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

repro: .venv/.installed ## everything from params.yaml: data, checks, sorters, runs, evidence, registry
	$(RUN) rankops params
	$(RUN) rankops mend
	$(RUN) rankops fetch
	$(RUN) $(DVC) --wait-for-lock repro
	$(RUN) python -m pipelines.stages.publish

experiments: .venv/.installed ## comparisons of losses and figures that need many trainings (an hour); goes on where it was stopped
	$(RUN) rankops params
	$(RUN) rankops mend
	$(RUN) rankops fetch
	$(RUN) $(DVC) --wait-for-lock repro experiments/dvc.yaml
	$(RUN) python -m pipelines.stages.publish_experiments

test: .venv/.installed lint ## what must pass before a change lands
	$(RUN) python -m pytest -m "not slow"

test-slow: .venv/.installed ## what takes longer: killed stages, a full disk, two clones compared
	$(RUN) python -m pytest -m slow

lint: .venv/.installed ## style and imports
	$(RUN) ruff check
	$(RUN) ruff format --check

scale: .venv/.installed ## make scale SCALE=paper: a scale's values, written into params.yaml
	$(RUN) rankops scale $(SCALE)

ui: .venv/.installed ## MLflow on http://127.0.0.1:5000 (PORT=...)
	@echo "MLflow: http://127.0.0.1:$(PORT) -- models and runs are under 'Model training'; stop with Ctrl-C"
	$(RUN) MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=1 MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false \
		mlflow server --host 127.0.0.1 --port $(PORT) --backend-store-uri $${MLFLOW_TRACKING_URI:-sqlite:///mlflow.db}

benchmark: .venv/.installed ## all benchmarks; figures in benchmarks/results
	set -e; for file in benchmarks/[a-z]*.py; do name=$$(basename $$file .py); \
		if [ $$name != results ]; then $(RUN) python -m benchmarks.$$name; fi; done

lock: ## requirements.lock anew, from pyproject.toml
	uv pip compile pyproject.toml --extra pipeline --group dev --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --quiet --upgrade --output-file requirements.lock
