# The two commands are `make serve` and `make test`; everything else is for people who work on Gatepost.
PYTHON ?= python3
DATA ?= data
CORES := $(shell $(PYTHON) -c 'import os; print(min(8, os.cpu_count() or 1))')
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * (os.cpu_count() or 1)))')
VENV := .venv
BIN := $(VENV)/bin
AUDIT := $(VENV)/audit
COMPILE = $(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
export UV_NO_PROGRESS := 1
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help serve test-fast test test-variants test-long lint format docs man site check lock audit bench fuzz sanitize screenshots wheel sdist deb release clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 15

serve: $(VENV)/run.ready $(VENV)/speedups.ready ## Set up and run the service on embedded defaults (DATA=folder to keep its data elsewhere, PORT_BASE=N to move its ports)
	@exec $(BIN)/gatepost serve --data $(DATA) $(if $(PORT_BASE),--port-base $(PORT_BASE))

test: $(VENV)/dev.ready ## Set up and run the tests, two workers for each core, since many wait (WORKERS=0 for none, VARIANTS=1 with all variants, ARGS=… is passed to pytest)
	$(BIN)/python -m pytest -n $(WORKERS) $(if $(VARIANTS),-m "not long") $(ARGS)

test-fast: $(VENV)/dev.ready ## Run the tests that start nothing: no service, no browser, no PostgreSQL (about a minute on two cores)
	$(BIN)/python -m pytest -n $(CORES) --fast $(ARGS)

test-variants: $(VENV)/dev.ready ## Run variants of what `make test` shows: the same behaviour on other engines, pages, formats and programs
	$(BIN)/python -m pytest -n $(WORKERS) -m "variant and not long" $(ARGS)

test-long: $(VENV)/dev.ready ## Run what neither of them does: many kills, thousands of generated attacks, whole suites, more examples of properties
	$(BIN)/python -m pytest -n $(WORKERS) -m "long or hypothesis" --hypothesis-profile=long \
		$(or $(ARGS),$$(grep -rlE --include='test_*.py' 'mark\.long|^from hypothesis' tests))

lint: $(VENV)/dev.ready ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.ready ## Put the code into its normal form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.ready ## Generate the reference pages and the list of licences
	$(BIN)/python -m tools.reference docs/reference
	$(BIN)/python -m tools.licences requirements/run.txt docs/licences.md

man: $(VENV)/dev.ready ## Write the manual pages of all commands into build/man
	@$(BIN)/python -m tools.man_pages build/man

site: $(VENV)/dev.ready ## Build the documentation site into build/site
	@$(BIN)/python -m tools.site build/site

check: $(VENV)/dev.ready ## Write the skeleton of a new check (NAME=area/module.trick, ARGS='--title "…" --strength')
	@$(BIN)/python tools/new_check.py "$(NAME)" $(ARGS)

lock: $(VENV)/uv.ready ## Resolve the dependencies anew into requirements/
	echo uv | $(COMPILE) - -o requirements/uv.txt
	$(COMPILE) pyproject.toml --group build -o requirements/run.txt
	$(COMPILE) pyproject.toml --group build --group dev --group site -c requirements/run.txt -o requirements/dev.txt
	$(COMPILE) --group fuzz -c requirements/dev.txt -o requirements/fuzz.txt
	$(COMPILE) --group audit -o requirements/audit.txt

audit: $(VENV)/dev.ready $(VENV)/audit.ready ## Write a bill of materials to build/, check licences and known vulnerabilities of the lock files that an installation uses
	$(BIN)/python -m tools.audit requirements/run.txt --also requirements/uv.txt --tools $(AUDIT)/bin --output build/sbom.cdx.json $(ARGS)

bench: $(VENV)/dev.ready ## Measure the service beside its peers; writes bench/RESULTS.md
	$(BIN)/python -m bench

fuzz: $(VENV)/fuzz.ready ## Fuzz every reader of hostile bytes for hours (ARGS="--target mime --executions 1000" for less)
	@$(BIN)/python -m bench.fuzz $(ARGS)

sanitize: $(VENV)/dev.ready ## Test the native speedups with the address and undefined-behaviour sanitizers (needs gcc)
	$(BIN)/python tools/build_speedups.py --sanitize
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
		PYTHONMALLOC=malloc $(BIN)/python -m pytest -q tests/test_speedups.py tests/checks/test_native_signs.py tests/checks/test_message_phrases.py tests/mail/test_ordinary.py \
		tests/mail/html/test_ordinary_pages.py tests/mail/test_ordinary_links.py $(ARGS); \
		status=$$?; $(BIN)/python tools/build_speedups.py; exit $$status

screenshots: $(VENV)/dev.ready ## Take every page in light and dark into build/screenshots (needs Chromium)
	$(BIN)/python -m bench.screenshots $(ARGS)

wheel: $(VENV)/dev.ready ## Build the wheel into dist/, the same bytes from the same sources and compiler
	$(BIN)/uv build --wheel --no-build-isolation -o dist

sdist: $(VENV)/dev.ready ## Build the source distribution into dist/
	$(BIN)/uv build --sdist --no-build-isolation -o dist

release: $(VENV)/dev.ready ## Build everything that a release has from its tag into dist/ (TRIAL=1: from any tree, into build/trial)
	$(BIN)/python -m tools.release $(if $(TRIAL),build/trial --trial,dist)

deb: wheel ## Build the Debian package of this machine's Debian into dist/
	$(BIN)/python -m tools.debian "$$(ls -t dist/gatepost-*.whl | head -1)" dist

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) build dist src/gatepost/_speedups.*.so .mypy_cache .ruff_cache .hypothesis

$(VENV)/uv.ready: requirements/uv.txt
	@echo "[1/3] Making an environment in $(VENV), once …"
	@$(PYTHON) tools/new_environment.py $(VENV) requirements/uv.txt $(if $(filter file,$(origin PYTHON)),,--this)
	@touch $@

$(VENV)/run.ready: $(VENV)/uv.ready requirements/run.txt pyproject.toml
	@echo "[2/3] Installing $$(grep -c '^[a-z].*==' requirements/run.txt) libraries and Gatepost, half a minute to two minutes …"
	@start=$$(date +%s); $(BIN)/uv pip install -q -p $(BIN)/python --require-hashes -r requirements/run.txt \
		&& $(BIN)/uv pip install -q -p $(BIN)/python --no-deps --no-build-isolation -e . \
		&& echo "      done in $$(($$(date +%s) - start)) s"
	@touch $@

$(VENV)/speedups.ready: $(VENV)/run.ready src/gatepost/_speedups.c $(wildcard src/gatepost/native/*.c) tools/build_speedups.py
	@echo "[3/3] Building the native speedups, a few seconds …"
	@$(BIN)/python tools/build_speedups.py
	@touch $@

$(VENV)/dev.ready: $(VENV)/run.ready $(VENV)/speedups.ready requirements/dev.txt
	@$(BIN)/uv pip install -q -p $(BIN)/python --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/fuzz.ready: $(VENV)/dev.ready requirements/fuzz.txt
	@$(BIN)/uv pip install -q -p $(BIN)/python --require-hashes -r requirements/fuzz.txt
	@touch $@

# In an environment of their own: what checks the packages should not change which of them are installed.
$(VENV)/audit.ready: $(VENV)/uv.ready requirements/audit.txt
	@$(BIN)/uv venv -q --clear -p $(BIN)/python $(AUDIT)
	@$(BIN)/uv pip install -q -p $(AUDIT)/bin/python --require-hashes -r requirements/audit.txt
	@touch $@
