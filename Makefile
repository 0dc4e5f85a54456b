# One word per task. `make` alone prints this list.
# PYTHON picks the interpreter that .venv is made with; WORKERS how many tests run at once; FUZZED what `make fuzz` runs.

PYTHON  ?= python3
UV      ?= uv
WORKERS ?= 2

FUZZED  ?= tests/unit/bwb tests/unit/bwb_meta tests/unit/cvdr tests/unit/lawyaml tests/unit/dialects

BIN     := .venv/bin
PYTEST  := $(BIN)/python -m pytest
# Tests of time limits share the processor with the tests beside them. What failed there must pass alone, or it has failed.
AGAIN    = { echo "once more, one at a time, what failed:"; $(PYTEST) --last-failed --last-failed-no-failures none $(1); }

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo test test-unit test-integration test-agents fuzz check bench claims docs faults soak lock clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' Makefile

install:  ## make .venv with the supervisor and what it needs (exact versions, checked by hash)
	@if [ ! -f .venv/.lock-dev ]; then $(MAKE) --no-print-directory .install KIND=runtime LOCK=requirements.lock; \
	 else $(MAKE) --no-print-directory .install KIND=dev LOCK=requirements-dev.lock; fi

install-dev:  ## the same with the tools for tests and checks
	@$(MAKE) --no-print-directory .install KIND=dev LOCK=requirements-dev.lock

# The digest of what an installation depends on is written into .venv, so a second `make install` does nothing. The folder
# is part of it, because scripts in .venv hold its path; of pyproject.toml the part above the settings of tools.
.PHONY: .install
.install:
	@want=$$( (pwd; cat $(LOCK) supervisor/version.py; sed '/^# ---/q' pyproject.toml) | cksum ); \
	if [ -x $(BIN)/regelrecht-supervisor ] && [ "$$(cat .venv/.lock-$(KIND) 2>/dev/null)" = "$$want" ]; then exit 0; fi; \
	set -e; \
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "regelrecht-supervisor needs Python 3.11 or newer, this is %s; try: make PYTHON=python3.11" % sys.version.split()[0])'; \
	if [ ! -x $(BIN)/python ]; then \
	  echo "making .venv"; \
	  $(PYTHON) -m venv .venv || { rm -rf .venv; echo "could not make .venv: is the venv module there? (Debian: apt install python3-venv)" >&2; exit 1; }; \
	fi; \
	echo "installing from $(LOCK)"; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(LOCK); \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	$(BIN)/python -m pip check --disable-pip-version-check; \
	echo "$$want" > .venv/.lock-$(KIND)

demo: install  ## watch it work: sample laws, a database, a git corpus, all on this machine, under two minutes
	$(BIN)/python -m supervisor.demo

test: test-unit test-integration  ## every test except the soak

test-unit: install-dev  ## pure rules, actors on a mock clock, the house rules: no database, no network
	$(PYTEST) -n $(WORKERS) tests/unit tests/actors || $(call AGAIN,tests/unit tests/actors)

test-integration: install-dev  ## real PostgreSQL, git, child processes, sockets, faults and whole supervisors
	$(PYTEST) -n $(WORKERS) --dist worksteal tests/integration tests/faults tests/e2e || $(call AGAIN,tests/integration tests/faults tests/e2e)

test-agents: install-dev  ## the real claude and opencode against model servers of our own (needs npm and its packages)
	$(BIN)/python -m tests.agents -n $(WORKERS)

check: install-dev  ## style, types, layers, Dockerfile and scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	find supervisor actors schema protocols -name '*.py' -exec $(BIN)/flake8-async --enable=ASYNC101,ASYNC102,ASYNC103,ASYNC104,ASYNC119,ASYNC900 {} +
	$(BIN)/hadolint Dockerfile
	$(BIN)/shellcheck .ci/run deploy/image/entrypoint.sh
	$(BIN)/mypy

bench: install-dev  ## ratios against bare asyncpg, procrastinate, pgqueuer and lxml, of one run
	$(BIN)/python -m benchmarks

claims: install-dev  ## which claims of the checklist have a test, by area
	$(BIN)/python -m tests.kit.claims

docs: install-dev  ## write docs/settings.md and .env.example again from the settings
	$(BIN)/python -m supervisor.settings.pages

faults: install-dev  ## kill, cut and freeze: the short tests; with N=300 (SEED=1) a long run with figures
ifdef N
	$(BIN)/python -m tests.faults --faults $(N) $(if $(SEED),--seed $(SEED)) --harvests $(or $(HARVESTS),2000)
else
	$(PYTEST) -n $(WORKERS) tests/faults
endif

soak: install-dev  ## faults for MINUTES=20 while memory, tasks, descriptors and connections are watched
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),20) $(if $(PLOT),--plot $(PLOT))

fuzz: install-dev  ## the random walks of the unit tests with 10,000 examples each: for the night
	HYPOTHESIS_PROFILE=nightly $(PYTEST) -n $(WORKERS) -o faulthandler_timeout=0 --timeout=0 $(FUZZED)

lock:  ## resolve both lock files again (needs uv: pip install uv)
	$(UV) pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --python-version 3.11 \
	  --all-extras --group dev pyproject.toml -o requirements-dev.lock
	$(UV) pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --python-version 3.11 \
	  --all-extras --group build -c requirements-dev.lock pyproject.toml -o requirements.lock

clean:  ## remove caches and outputs (.venv stays; remove it by hand to start over)
	rm -rf build dist demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
	find supervisor actors schema protocols tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
