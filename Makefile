# The same commands for people, hooks, and CI. `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup quickstart repro test test-fast test-slow fuzz coverage lint scale ui up deploy service serve lock audit secrets trainers
SHELL := bash
# Variables from when this project was called RankOps would be ignored silently.
$(foreach old,$(filter RANKOPS_%,$(.VARIABLES)),$(error $(old) was renamed to $(old:RANKOPS_%=RANKGRAD_%): unset $(old)))
PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
# Everything below runs in the project's own environment, even if another one is active.
RUN := env -u VIRTUAL_ENV PATH="$(BIN):$$PATH" PYTHONPATH=src
# If make is killed, end the processes it started: dvc, and with it the stage.
TIED := $(shell command -v setpriv >/dev/null && echo setpriv --pdeathsig TERM)
# Only one runs per folder, and the next one waits; it repairs the files of a killed one.
REPRO := $(RUN) $(TIED) python -m pipelines.ops.repro
PORT ?= 5000
MLFLOW_PORT ?= $(PORT)
PREFECT_PORT ?= 4200
POOL ?= cpu
NIGHTLY ?= 0 3 * * *
COUNT ?= 1000
SEED ?= 1

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: .venv/.installed ## install the environment in .venv from the hash-pinned requirements.lock

# Written last, so that a killed install starts again. Bytecode is compiled here, because if Python cannot write bytecode
# later, each of dozens of stages would compile PyTorch again.
.venv/.installed: requirements.lock requirements-uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"Python 3.11 or newer is needed, found {sys.version.split()[0]}: make PYTHON=python3.12 ...")'
	@test ! -L .venv || { echo ".venv is a link, and its target would be emptied: rm .venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@command -v uv >/dev/null || .venv/bin/pip install --quiet --require-hashes -r requirements-uv.lock
	PATH="$(BIN):$$PATH" uv pip install --quiet --compile-bytecode --python .venv/bin/python --require-hashes -r requirements.lock
	PATH="$(BIN):$$PATH" uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
	@test ! -d .dvc || PYTHONPATH=src .venv/bin/python -m pipelines.reporting.plots_page
	@touch $@

.SILENT: quickstart repro # their own output is enough
quickstart: .venv/.installed ## train two label rankers in a minute, with RLSEP and with cross-entropy: a table and a figure
	$(RUN) python -m examples.quickstart

repro: .venv/.installed ## run the pipeline in params.yaml: data, checks, sorters, runs, evaluation, registry
	$(RUN) rankgrad check params.yaml
	$(RUN) rankgrad fetch
	$(REPRO)

.PHONY: evidence
evidence: .venv/.installed ## run the studies behind the tables of the docs, in hours; resumes where it stopped
	$(MAKE) -C studies

.PHONY: plan
plan: .venv/.installed ## list the stages that changes to code or params make stale
	$(RUN) dvc repro --quiet code
	$(RUN) dvc status

test: .venv/.installed lint ## lint and all tests that must pass before a change lands
	$(RUN) python -m pytest -m "not slow" --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Skip tests that import the platform, and the test of adding components, which runs the contracts again.
SLOWER := $(addprefix --ignore tests/,contracts/test_adding.py contracts/test_boundaries.py contracts/test_new_input_type.py \
	laws/test_answers.py laws/test_evaluation.py laws/test_params.py laws/test_requests.py)
test-fast: .venv/.installed ## tests of mathematics and contracts, and doctests; less than a minute
	$(RUN) python -m pytest -m "not slow" --numprocesses 2 --dist worksteal src/rankgrad tests/contracts tests/laws $(SLOWER)

coverage: .venv/.installed ## test coverage of src/rankgrad; fails below 94%
	$(RUN) python -m pytest -m "not slow" --numprocesses 2 --dist loadfile --no-loadscope-reorder \
		--cov rankgrad --cov-branch --cov-report term:skip-covered --cov-fail-under 94

test-slow: .venv/.installed ## slow tests: killed stages, experiments, servers, and schedules
	$(RUN) python -m pytest -m slow

fuzz: .venv/.installed ## property tests in tests/laws with COUNT=1000 examples each, from SEED=1; half an hour
	$(RUN) RANKGRAD_LAW_EXAMPLES=$(COUNT) python -m pytest tests/laws --hypothesis-seed $(SEED) --timeout 0

lint: .venv/.installed ## check style, imports, docstrings, and types
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) ty check src pipelines tools studies

.PHONY: dist
dist: .venv/.installed # build a release in dist/: the source distribution, and the wheel built from it
	rm -rf dist
	$(RUN) hatchling build --target sdist --directory dist
	$(RUN) python -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz

# Tools that do not need the project's packages have their own lock file.
.PHONY: docs hooks
.venv-tools/.installed: requirements-tools.lock
	$(PYTHON) -m venv --clear .venv-tools
	.venv-tools/bin/pip install --quiet --require-hashes -r requirements-tools.lock
	@touch $@

docs: .venv-tools/.installed ## build the documentation in site/; warnings are errors
	.venv-tools/bin/python -m tools.reference
	NO_MKDOCS_2_WARNING=1 .venv-tools/bin/mkdocs build --strict --quiet
	@echo "wrote site/index.html"

hooks: .venv/.installed .venv-tools/.installed ## run the checks of .pre-commit-config.yaml at each commit from now on
	.venv-tools/bin/pre-commit install

.venv-trainers/.installed: requirements-trainers.lock
	$(PYTHON) -m venv --clear .venv-trainers
	.venv-trainers/bin/pip install --quiet --require-hashes -r requirements-trainers.lock
	@touch $@

trainers: .venv-trainers/.installed ## run examples/trainers: our losses in Hugging Face, Lightning, sentence-transformers, and TRL
	@for example in examples/trainers/*.py; do \
		echo "$$example"; PYTHONPATH=src OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 .venv-trainers/bin/python $$example || exit 1; done

scale: .venv/.installed ## make scale SCALE=paper: write a scale's values into params.yaml
	$(RUN) rankgrad scale $(SCALE)

ui: .venv/.installed ## MLflow on http://127.0.0.1:5000 (PORT=...)
	@case "$$MLFLOW_TRACKING_URI" in http*) \
		$(RUN) python -c 'import os; from rankgrad.io.addresses import without_credentials as plain; \
			print("MLflow: a server has the store, and its UI:", plain(os.environ["MLFLOW_TRACKING_URI"]))'; exit;; esac; \
	echo "MLflow: http://127.0.0.1:$(PORT) -- models and runs are under 'Model training'; stop with Ctrl-C"; \
	$(RUN) python -m pipelines.tracking $(PORT) && $(RUN) MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=1 MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false \
		mlflow server --host 127.0.0.1 --port $(PORT) --workers 1 --backend-store-uri "$${MLFLOW_TRACKING_URI:-sqlite:///mlflow.db}"

# Servers for flows: a team's servers if the environment names them, otherwise those of `make up`.
# With lease storage on disk, a restarted server knows who held a slot, and frees it within 5 minutes.
SERVERS := PREFECT_API_URL="$${PREFECT_API_URL:-http://127.0.0.1:$(PREFECT_PORT)/api}" \
	MLFLOW_TRACKING_URI="$${MLFLOW_TRACKING_URI:-http://127.0.0.1:$(MLFLOW_PORT)}" \
	PREFECT_HOME="$(CURDIR)/.servers/prefect" PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_FLOWS_HEARTBEAT_FREQUENCY=30 PREFECT_SERVER_DATABASE_TIMEOUT=60 \
	PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT=60 PREFECT_SERVER_EVENTS_CAUSAL_ORDERING=pipelines.flows.event_order \
	PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE=prefect.server.concurrency.lease_storage.filesystem \
	MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false DO_NOT_TRACK=1

# Ports set by the user, to include them in the make commands of messages.
PORTS = $(strip $(foreach port,PREFECT_PORT MLFLOW_PORT,$(if $(filter file,$(origin $(port))),,$(port)=$($(port)))))

up: .venv/.installed ## Prefect on http://127.0.0.1:4200, MLflow on :5000 and a worker, until Ctrl-C (PREFECT_PORT=, MLFLOW_PORT=, POOL=gpu, PARTS=worker)
	@mkdir -p .servers/prefect; UP=$$$$ PREFECT_PORT=$(PREFECT_PORT) MLFLOW_PORT=$(MLFLOW_PORT) POOL=$(POOL) exec $(TIED) $(RUN) $(SERVERS) \
		PYTHONPATH="$(CURDIR):$(CURDIR)/src" RANKGRAD_PROJECT="$(CURDIR)" honcho --env /dev/null start $(PARTS)

deploy: .venv/.installed ## deploy flows and their schedules to the Prefect server, for a worker's pool (POOL=gpu, NIGHTLY="0 3 * * *", PUSH=origin)
	@mkdir -p .servers/prefect
	$(RUN) $(SERVERS) $(if $(filter file,$(origin POOL)),,RANKGRAD_POOL=$(POOL)) RANKGRAD_PORTS="$(PORTS)" RANKGRAD_NIGHTLY="$(NIGHTLY)" \
		$(if $(PUSH),RANKGRAD_PUSH="$(PUSH)") \
		deploy/prefect.sh

service: ## install `make up` as a systemd unit that starts after a reboot (POOL=gpu, PARTS=worker, PREFECT_PORT=, MLFLOW_PORT=)
	@deploy/service.sh 'POOL=$(POOL)' 'PREFECT_PORT=$(PREFECT_PORT)' 'MLFLOW_PORT=$(MLFLOW_PORT)' $(if $(PARTS),'PARTS=$(PARTS)')

serve: .venv/.installed ## make serve MODEL=label_ranking-photos@champion PORT=5001: serve a registered version (HOST=0.0.0.0 and RANKGRAD_TOKEN for other machines)
	$(RUN) rankgrad serve $(if $(MODEL),models:/$(MODEL)) $(if $(filter file,$(origin PORT)),,--port $(PORT)) $(if $(filter command,$(origin HOST)),--host $(HOST))

lock: ## update requirements.lock, -tools.lock, and -trainers.lock from pyproject.toml; keep existing pins unless UPGRADE=--upgrade
	uv pip compile pyproject.toml --extra fleet --group dev --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --quiet $(UPGRADE) --output-file requirements.lock
	uv pip compile --group docs --group hooks --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --quiet $(UPGRADE) --output-file requirements-tools.lock
	uv pip compile pyproject.toml --group trainers --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --quiet --constraint requirements.lock $(UPGRADE) --output-file requirements-trainers.lock

audit: .venv/.installed # report known vulnerabilities of the packages in requirements.lock (queries a service)
	$(RUN) pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock

secrets: .env # write .env for compose.yaml, with a random value for each secret in .env.example

.env:
	@umask 077; trap 'rm -f .env.partial-$$$$' EXIT; while IFS= read -r line; do \
		case $$line in *=) secret=$$($(PYTHON) -c 'import secrets; print(secrets.token_hex(24))') || exit 1; echo "$$line$$secret";; \
			*) echo "$$line";; esac; \
	done < .env.example > .env.partial-$$$$ && mv .env.partial-$$$$ .env
	@echo "wrote .env, readable only by you"
