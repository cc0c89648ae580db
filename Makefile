# Every target works in a fresh checkout: it sets up what it needs first. See docs/testing.md.
.DEFAULT_GOAL := help
.PHONY: help demo test set-up controlplane images test-kind lint format verify generate relock suites sim model mutants bench completions clean

PYTHON_IN := .venv/bin/python
# Which PostgreSQL versions every database test runs on: PG=15,17,18 or PG=all.
# Without it each test runs on the versions that it names.
PG ?=
# Which makes of the MySQL family: MY=mysql or MY=mariadb. Without it both.
MY ?=
# SUBSET=1 leaves out, and counts, tests whose server or input is not here. Else they fail.
SUBSET ?= $(PTAHK_TEST_SUBSET)
# How many times the usual number of random cases and kills.
BUDGET ?= 1
# Processes of a campaign.
JOBS ?= $(shell nproc)
# Test processes: one more, since some test waits for a cluster most of the time.
WORKERS ?= $(shell expr $(JOBS) + 1)
# How many seeds `make sim` runs, and from which on.
SEEDS ?= 20000
FIRST ?= 0
# How many faults `make model` lets happen on one path, and how many states of one kind of fault are
# enough (0: all there are; a clock that steps gives millions).
FAULTS ?= 1
STATES ?= 500000
# More for pytest, for example: make suites TESTS=tests/unit ARGS='-k frame -x'
TESTS ?= tests
ARGS ?=
PYTEST = $(PYTHON_IN) -m pytest --budget $(BUDGET) $(if $(PG),--pg $(PG)) $(if $(MY),--my $(MY))

export PG MY
export PTAHK_TEST_SUBSET := $(SUBSET)

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

demo: ## Run ptahk against a PostgreSQL of its own: plan, approve, apply, prove, drift
	@scripts/set-up demo
	@$(PYTHON_IN) scripts/demo.py

test: ## Everything: checks of the sources, then every suite on real servers
	@scripts/set-up dev
	@$(MAKE) --no-print-directory lint verify suites

set-up: ## Make .venv and get the servers that the tests need
	@scripts/set-up dev

controlplane: ## Build the Kubernetes of the tests: ten minutes, once per machine and version
	@$(PYTHON_IN) -m tests.kit.gobuild

images: ## Build the images of the Dockerfile as the tests do, without a registry
	@$(PYTHON_IN) -m tests.kit.images

test-kind: ## The cluster suites on a kind cluster (needs Docker and kind), removed afterwards
	@scripts/set-up dev
	@scripts/test-kind

lint: ## ruff, mypy and the import contracts
	$(PYTHON_IN) -m ruff check .
	$(PYTHON_IN) -m ruff format --check .
	$(PYTHON_IN) -m mypy
	.venv/bin/lint-imports

format: ## Rewrite the sources the way ruff wants them
	$(PYTHON_IN) -m ruff check --fix .
	$(PYTHON_IN) -m ruff format .

verify: ## Fail when a generated file is not what its generator writes today
	$(PYTHON_IN) scripts/generate.py --check

generate: ## Write the generated files: docs/errors.md, docs/schemas, completions, policies, locks
	$(PYTHON_IN) scripts/generate.py

relock: ## Make the images' lock files anew, for newer versions
	PTAHK_RELOCK=1 $(PYTHON_IN) scripts/generate.py locks

completions: ## Write completions/ for bash, zsh and fish
	$(PYTHON_IN) scripts/generate.py completions

suites: ## Only the tests, without the checks
	@$(PYTEST) -n $(WORKERS) --dist worksteal $(ARGS) $(TESTS) || { \
	  code=$$?; [ $$code -eq 1 ] || exit $$code; \
	  echo "Some tests failed. Once more, these alone and nothing beside them:"; \
	  $(PYTEST) --last-failed --last-failed-no-failures none -v $(ARGS) $(TESTS); }

sim: ## A campaign of the simulator: make sim SEEDS=20000
	$(PYTHON_IN) -m tests.sim --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS)

mutants: ## Hunt every planted bug of the engine, alone and in pairs
	$(PYTHON_IN) -m tests.sim.hunt --jobs $(JOBS)

model: ## Every state of the engine's model with one fault; further: make model FAULTS=2 STATES=…
	$(PYTHON_IN) -m tests.model --faults $(FAULTS) --states $(STATES) --jobs $(JOBS)

bench: ## The figures of docs/performance.md; fails where a bound is missed
	@scripts/set-up dev
	$(PYTHON_IN) -m benchmarks

clean: ## Remove .venv and caches
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
