# Two commands do everything on a Linux machine with Python 3.11+, its venv module and make:
#   make up     install, start the whole stack, run the demo, print the address; Ctrl-C stops all of it
#   make test   install what the tests need too, then run every check and the whole suite
# PYTHON=... names another interpreter. PORT, VAR_DIR, DATABASE_URL, CELERY_BROKER_URL, TEMPORAL_ADDRESS: README.md.

VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --disable-pip-version-check --no-input --prefer-binary --progress-bar off -c constraints.txt

.PHONY: up test lint types conformance bench-retrieval bench-behaviour install install-dev
.DEFAULT_GOAL := up

up: install
	@exec $(RUN) manage.py up --tied $(UP)

test: install-dev
	@exec bash .ci/checks

lint: install-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: install-dev
	$(RUN) -m mypy contract ingest knowledge debugger kernel

conformance: install
	$(RUN) -m kernel.conformance

bench-retrieval: install
	$(RUN) manage.py evaluate_retrieval --corpus all --store

bench-behaviour: install-dev
	$(RUN) -m bench.behaviour $(BENCH)

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(RUN):
	@sh .ci/make-venv "$(PYTHON)" $(VENV)

$(VENV)/.installed: requirements.txt constraints.txt | $(RUN)
	@echo "installing the packages of requirements.txt"
	@$(INSTALL) -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt requirements.txt constraints.txt | $(RUN)
	@echo "installing the packages of requirements-dev.txt"
	@$(INSTALL) -r requirements-dev.txt
	@touch $(VENV)/.installed $@
