# Each target sets up what it needs: Python 3.11 or newer, git and make are enough.
#   make demo    explain and mend one failing script under simulated CUDA
#   make test    run the tests
#   make lint    ruff and mypy
#   make cuda    run the fixtures on a real CUDA device, else simulated (BLESS=1 records what it says)
# PY=/path/to/python uses an environment that is there already instead of making .venv.

.DEFAULT_GOAL := test
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PYTHON = $(if $(findstring /,$(PY)),$(abspath $(PY)),$(PY))
WORKERS ?= auto
DEMO := fixtures/to-result-discarded/train_loop_bare_to/script.py

ifneq ($(origin PY),file)
READY :=
export PYTHONPATH := $(CURDIR)/src
endif

.PHONY: demo test lint cuda clean

$(VENV)/.ready: pyproject.toml
	@for python in python3.11 python3.12 python3.13 python3 python; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "setting up $(VENV) with $$($$python --version)"; \
			exec $$python -m venv --clear $(VENV); \
		fi; \
	done; echo "no Python 3.11 or newer on PATH" >&2; exit 1
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: $(READY)
	@rm -rf build/demo && mkdir -p build/demo && cp $(DEMO) build/demo/
	@echo '$$ python -m whydevice --simulate-cuda script.py'
	@cd build/demo && $(PYTHON) -m whydevice --simulate-cuda script.py; test $$? -eq 1
	@echo && echo '$$ python -m whydevice --simulate-cuda --fix script.py'
	@cd build/demo && $(PYTHON) -m whydevice --simulate-cuda --fix script.py

test: $(READY)
	$(PY) -m pytest -q -n $(WORKERS) --dist loadgroup

lint: $(READY)
	$(PY) -m ruff check src tests
	$(PY) -m mypy

# Without a CUDA device it says so, and the same driver runs the fixtures under simulation.
cuda: $(READY)
	@$(PY) -c 'import torch; torch.cuda.is_available() or print("torch %s sees no CUDA device here: the fixtures run under simulated CUDA" % torch.__version__)'
	$(PY) -m pytest -q -n $(WORKERS) --dist loadgroup tests/test_fixtures.py $(if $(BLESS),--bless)

clean:
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
