# Everything a newcomer needs: `make quickstart` to see it work, `make test` to check it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TOOLS := $(VENV)/.tools-installed
CLUSTER := $(VENV)/.cluster-installed
# Linux without a GPU: TORCH=cpu installs the CPU build of PyTorch, without the gigabytes of CUDA.
TORCH ?=
TORCH_INDEX ?= $(if $(filter cpu,$(TORCH)),https://download.pytorch.org/whl/cpu)
ifneq ($(filter-out cpu,$(TORCH)),)
$(error TORCH=$(TORCH): only TORCH=cpu is known; TORCH_INDEX=URL names any other index)
endif
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PAIR ?= en-fr
MODELS := packages/regard-models

.DEFAULT_GOAL := help
.PHONY: help venv tools models quickstart chromium test test-slow fuzz benchmark benchmark-transformer benchmarks lint format clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-21s %s\n", $$1, $$2}'

venv: $(STAMP) ## create .venv with the pinned dependencies

# The check comes first: an older Python fails later, in words that do not say why.
$(STAMP): pyproject.toml constraints.txt $(MODELS)/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Regard needs Python 3.11 or later, this is " + sys.version.split()[0] + ": make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing PyTorch 2.13.0 $(if $(TORCH_INDEX),from $(TORCH_INDEX),(on Linux without a GPU, TORCH=cpu is much smaller)): about a minute, by your line"
	@$(PIP) torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@echo "Installing Regard and its libraries (tokenizers, matplotlib, fastapi, …; about 250 MB on disk): about half a minute"
	@$(PIP) -c constraints.txt -e $(MODELS) -e '.[models,serve]'
	touch $(STAMP)

# What tests and linters need is several times as much, so that a user of Regard does not wait for it.
tools: $(TOOLS) ## create .venv with the dependencies and the test tools
$(TOOLS): $(STAMP)
	@echo "Installing what tests and linters need (pytest, mypy, transformers, onnxruntime, …; about 700 MB on disk): about a minute"
	@$(PIP) -c constraints.txt -e '.[dev]'
	touch $(TOOLS)

# Ray and pyarrow are large, and only the tests of bulk translation need them.
$(CLUSTER): $(TOOLS)
	@echo "Installing Ray and pyarrow, which the tests of bulk translation need (about 420 MB on disk): about half a minute"
	@$(PIP) -c constraints.txt -e '.[cluster]'
	touch $(CLUSTER)

quickstart: venv ## train, translate, score and look, in about five minutes with installation (PAIR=en-fr, en-de or en-ko)
	$(BIN)/regard quickstart --pair $(PAIR)

models: venv ## train and pack the installed models, many core-hours, resumable (DATA=folder of the text, WORK=, ONLY=names)
	@test -n "$(DATA)" || { echo "make $@ DATA=DIR: name the folder of the text" >&2; exit 2; }
	$(BIN)/python $(MODELS)/make.py --data $(DATA) $(if $(WORK),--work $(WORK)) $(ONLY)

test: lint chromium ## lint, type-check and run the quick tests, in about seven minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# The page is tested in a real browser: Debian's, installed here where that needs nobody's password.
INSTALL_CHROMIUM := apt-get update -qq && apt-get install -qq --no-install-recommends chromium fonts-nanum
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit; done; \
	if [ "$$(id -u)" = 0 ]; then as=sh; else as="sudo -n sh"; fi; \
	{ command -v apt-get && $$as -c "$(INSTALL_CHROMIUM)"; } >/dev/null 2>&1 \
	|| echo "there is no Chromium, and none can be installed here: the tests of the page are skipped"

benchmark: BENCHMARK := recurrent
benchmark: venv ## compare the speed with OpenNMT-py and JoeyNMT, about two hours (DATA=folder of the text)
	$(RUN_BENCHMARK)

# Regard writes CTranslate2's model with the help of its package.
benchmark-transformer: BENCHMARK := transformer
benchmark-transformer: venv ## compare the speed with Hugging Face, OpenNMT-py and CTranslate2, half an hour
	$(PIP) -c constraints.txt ctranslate2
	$(RUN_BENCHMARK)

benchmarks: BENCHMARK := everything
benchmarks: $(CLUSTER) ## measure every table of the pages on performance and scale, about eight hours, resumable
	$(PIP) -c constraints.txt ctranslate2
	$(RUN_BENCHMARK)

define RUN_BENCHMARK
@test -n "$(DATA)" || { echo "make $@ DATA=DIR: name the folder of the text" >&2; exit 2; }
$(BIN)/python benchmarks/$(BENCHMARK).py --data $(DATA) $(if $(TORCH_INDEX),--torch-index $(TORCH_INDEX))
endef

test-slow: $(CLUSTER) ## run the slow tests: train every architecture to convergence, lose nodes of a Ray cluster
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

fuzz: tools ## fuzz all file readers with 100,000 damaged files, about an hour (INPUTS=count)
	REGARD_FUZZ=$(or $(INPUTS),100000) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/fuzz

lint: tools ## check with ruff and mypy, without changes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: tools ## sort the imports and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove caches and builds, keep .venv and models
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find regard tests -name __pycache__ -type d -prune -exec rm -rf {} +
