# Each target sets up what it needs: Python 3.11 or newer, git and make are enough.
#   make demo    explain and mend one failing script under simulated CUDA
#   make test    run the tests
#   make lint    ruff and mypy
#   make cuda    run the fixtures on a GPU and record what it does; without one, simulated
#   make cuda-ops    the same for PyTorch's operators (OPTIONS="--minutes 9": both go on where they were cut)
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

.PHONY: demo test lint cuda cuda-ops cuda-simulated cuda-ops-simulated clean

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

# The first Python that sees a GPU runs it as it is, with its own torch and rich; else .venv does, simulated.
SEES_A_GPU := import sys, rich, torch; sys.exit(sys.version_info < (3, 11) or not torch.cuda.is_available())
PYTHONS = $(if $(READY),python3 python python3.11 python3.12 python3.13 $(VENV)/bin/python,$(PYTHON))

cuda cuda-ops:
	@for python in $(PYTHONS); do \
		if $$python -c '$(SEES_A_GPU)' 2>/dev/null; then exec $$python scripts/real_$(subst -,_,$@).py $(OPTIONS); fi; \
	done; \
	$(MAKE) --no-print-directory $@-simulated

cuda-simulated cuda-ops-simulated: $(READY)
	@$(PY) scripts/real_$(subst -,_,$(@:-simulated=)).py $(OPTIONS)

clean:
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
