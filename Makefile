# The verbs of this project. `make up` and `make test` are all that a newcomer needs; both install what is missing.
PYTHON ?= python3.11
BIN := .venv/bin
TEST_MODEL := build/models/SmolLM2-135M-Instruct
FRONTEND_SOURCES := $(shell find frontend -type f -not -path '*/node_modules/*' -not -path '*/dist/*' 2>/dev/null)
APT := $(if $(filter 0,$(shell id -u)),,sudo )apt-get
PYTEST := $(BIN)/python -m pytest
NPM = cd frontend && PATH="$$($(CURDIR)/$(BIN)/python -P $(CURDIR)/platform/controlplane/launch/node_path.py)" npm
export TANDEM_TEST_MODEL ?= $(abspath $(TEST_MODEL))
# One thread per process: the tests run in parallel, and OpenMP threads that outnumber cores wait for each other.
TEST_ENV := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: up test check lint format bench bench-engine bench-router bench-control generate clean reset install console test-unit test-budget test-postgres test-system test-console chaos

up: install console  ## start everything; Ctrl-C stops it
	@exec $(BIN)/python manage.py up

# -- installing ----------------------------------------------------------------------------------------
install: .venv/.installed

.venv/.installed: requirements.txt pyproject.toml
	@echo "== Python packages (the first time takes a few minutes)"
	@test -x $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf .venv; $(PYTHON) -m venv .venv; } || \
	  { echo "Python's venv module is missing: trying Debian's package"; rm -rf .venv; \
	    $(APT) install -y -q $(notdir $(PYTHON))-venv && $(PYTHON) -m venv .venv; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .  # the `tandem` command
	@touch $@

console: frontend/dist/index.html

frontend/node_modules/.installed: frontend/package-lock.json | install
	@echo "== Console packages"
	@$(NPM) ci --no-audit --no-fund --no-update-notifier --loglevel error
	@touch $@

frontend/dist/index.html: frontend/node_modules/.installed $(FRONTEND_SOURCES)
	@echo "== Console build"
	@$(NPM) run --silent build -- --logLevel warn
	@touch $@

$(TEST_MODEL)/config.json: | install
	@$(BIN)/python -m inference.engine.default_model --out $(TEST_MODEL)

/usr/bin/chromium:
	@echo "== Chromium for the browser test"
	@$(APT) update -q >/dev/null && $(APT) install -y -q chromium >/dev/null

# -- testing -------------------------------------------------------------------------------------------
test: test-unit test-budget test-postgres test-console test-system  ## everything, the browser test included

test-unit: install $(TEST_MODEL)/config.json
	$(TEST_ENV) $(PYTEST) -n 2 --dist loadgroup -m "not e2e and not chaos and not alone" tests

test-budget: install  ## what a token costs the router beside vllm-router, which it installs (130 MB)
	$(PYTEST) -s -m alone tests/bench/router

test-postgres: install
	$(TEST_ENV) $(BIN)/python -m tests.postgres_server $(PYTEST) -m postgres tests/control

test-console: console
	@$(NPM) test --silent

test-system: install console $(TEST_MODEL)/config.json | /usr/bin/chromium
	$(PYTEST) -m "e2e or chaos" tests

chaos: install  ## faults in random order under load: make chaos [MINUTES=10] [SEED=...] [DATABASE=postgres]
	PYTHONPATH=platform:. $(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),10) --database $(or $(DATABASE),postgres) \
	  $(if $(SEED),--seed $(SEED))

# -- habits --------------------------------------------------------------------------------------------
check: lint  ## what a change must pass before it is committed: lint, types, imports, migrations, generated files
	$(BIN)/python -m mypy
	PYTHONPATH=platform:. $(BIN)/lint-imports --no-cache
	$(BIN)/python manage.py makemigrations --check --dry-run --skip-checks
	$(PYTEST) -q tests/architecture
	@$(NPM) run --silent check

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format:
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate:  ## from the contracts: TypeScript of states, views and events, and the page of state diagrams
	$(BIN)/python -m inference.contracts.typescript > frontend/src/generated/contracts.ts
	$(BIN)/python -m inference.contracts.diagrams > docs/states.md

bench: bench-engine bench-router bench-control  ## all figures of this machine, printed and written to build/bench/

bench-engine: install $(TEST_MODEL)/config.json  ## engine and hand-off beside their peers (12 minutes): [ROWS=decode,prefill,...]
	$(BIN)/python -m tests.bench.engine $(if $(ROWS),--rows $(ROWS))

bench-router: install  ## the router beside vllm-router (six minutes): [ROWS=cost,latency,picking,memory]
	$(BIN)/python -m tests.bench.router $(if $(ROWS),--rows $(ROWS))

bench-control: install  ## the control plane under a simulated fleet of 1,000 nodes (ten minutes)
	$(BIN)/python -m tests.bench.control

clean:  ## everything that can be made again; data is kept
	rm -rf .venv build frontend/dist frontend/node_modules .pytest_cache .mypy_cache .ruff_cache

reset:  ## forget all data: database, keys, models, logs
	rm -rf data
