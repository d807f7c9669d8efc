# Two commands do everything on a Linux machine with Python 3.11+, its venv module and make:
#   make up     install, start the whole stack, run the demo, print the address; Ctrl-C stops all of it
#   make test   install what the tests need too, then run every check and the whole suite
# PYTHON=... names another interpreter. PORT, VAR_DIR, DATABASE_URL, CELERY_BROKER_URL, TEMPORAL_ADDRESS: README.md.

VENV := .venv
RUN := $(VENV)/bin/python
OPTIONS := --disable-pip-version-check --no-input --prefer-binary --progress-bar off
INSTALL := $(RUN) -m pip install $(OPTIONS) -c constraints.txt
MODEL_VENV := var/behaviour-venv

.PHONY: up test lint types conformance bench-retrieval bench-behaviour bench-behaviour-model install install-dev
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

# A small language model as the agent, in an environment of its own: what runs it is built from source, some minutes once.
bench-behaviour-model: $(MODEL_VENV)/.installed
	$(MODEL_VENV)/bin/python -m bench.choice --doc docs/choice-model.md
	$(MODEL_VENV)/bin/python -m bench.behaviour --agent choice_model --arms priming,runtime,placebo --doc docs/behaviour-model.md $(BENCH)

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

$(MODEL_VENV)/.installed: requirements-behaviour.txt requirements-dev.txt requirements.txt constraints.txt
	@sh .ci/make-venv "$(PYTHON)" $(MODEL_VENV)
	@echo "installing the packages of requirements-dev.txt and requirements-behaviour.txt; llama.cpp is built from source"
	@$(MODEL_VENV)/bin/python -m pip install $(OPTIONS) -c constraints.txt -r requirements-dev.txt
	@CMAKE_ARGS="-DLLAVA_BUILD=OFF" $(MODEL_VENV)/bin/python -m pip install $(OPTIONS) --no-deps -r requirements-behaviour.txt
	@touch $@
