# Everything runs in .venv, which the first target that needs it builds from the pins in requirements/.
# PYTHON=...  the interpreter to build .venv with (default: the first one on PATH that is 3.10 or newer)
# ARGS=...    more arguments for what is run
# SECONDS=... time for `make fuzz`

SHELL := /bin/sh
# Where it is set, as in many containers, each of the thousands of programs that tests start compiles toolgrade and its
# dependencies again.
unexport PYTHONDONTWRITEBYTECODE
PYTHON_SOURCES := $(wildcard src tests adapters examples benchmarks fuzz faults .ci)

# Editable installs point at this very folder, so a copied or moved .venv must not pass for this folder's own.
HERE := $(shell pwd -P | cksum | cut -d ' ' -f 1)
TEST_READY := .venv/.test-$(HERE)
DEV_READY := .venv/.dev-$(HERE)
INSTALLER := .ci/venv .ci/common.sh requirements/uv.txt requirements/build.txt \
	pyproject.toml $(wildcard adapters/*/pyproject.toml)

COMPILE = .venv/bin/uv pip compile --quiet --universal --python-version 3.10 --no-emit-index-url --no-emit-find-links --generate-hashes \
	--custom-compile-command "make pins" --no-annotate $(if $(UPGRADE),--upgrade) $(addprefix --upgrade-package ,$(PACKAGES))

.PHONY: help
help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: $(TEST_READY) ## Run the demonstration: offline, without a key
	@.venv/bin/python examples/langchain_agent.py

.PHONY: test
test: $(TEST_READY) ## Run all tests, the core's and the adapters'
	@.venv/bin/python -m pytest -n auto --dist worksteal $(ARGS)

.PHONY: validity
validity: $(TEST_READY) ## Measure which scores tell good runs from bad, beside other libraries, into benchmarks/validity/README.md
	@cd benchmarks && ../.venv/bin/python -m validity --write $(ARGS)

.PHONY: speed
speed: $(TEST_READY) ## Measure scoring beside other libraries
	@.venv/bin/python benchmarks/scoring.py $(ARGS)

.PHONY: fuzz
fuzz: $(TEST_READY) ## Try random inputs at every door for SECONDS (60), see fuzz/README.md
	@.venv/bin/python -m fuzz --seconds $(or $(SECONDS),60) $(ARGS)

# KILLS=...  how often each program is killed; each other fault hurts it a tenth as often
.PHONY: faults
faults: $(TEST_READY) ## Kill, interrupt and starve the programs that write files, and check their files
	@.venv/bin/python -m faults --kills $(or $(KILLS),10)

.PHONY: docs
docs: $(TEST_READY) ## Build the site of the documentation into build/site, and check its links
	@.venv/bin/uv venv --quiet --clear --python .venv/bin/python .ci-venvs/docs
	@.venv/bin/uv pip install --quiet --python .ci-venvs/docs/bin/python --no-deps --require-hashes \
		--build-constraints requirements/build.txt --requirement requirements/docs.txt
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=src .ci-venvs/docs/bin/mkdocs build --strict --quiet
	@echo "python -m http.server --directory build/site shows the site"

# PACKAGE=... what is changed (see .ci/mutants.py), COUNT=... at how many places
.PHONY: mutants
mutants: $(TEST_READY) ## Change the code at random places, one at a time, and show which changes no test notices
	@.venv/bin/uv venv --quiet --allow-existing --python .venv/bin/python .ci-venvs/mutants
	@.venv/bin/uv pip install --quiet --python .ci-venvs/mutants/bin/python --no-deps --require-hashes \
		--requirement requirements/core.txt --requirement requirements/mutants.txt
	@.ci-venvs/mutants/bin/python .ci/mutants.py $(or $(PACKAGE),matching) $(or $(COUNT),100)

.PHONY: lint
lint: $(DEV_READY) ## Check style, format and the direction of imports
	.venv/bin/ruff check $(PYTHON_SOURCES)
	.venv/bin/ruff format --check $(PYTHON_SOURCES)
	.venv/bin/lint-imports --no-logo

# --verifytypes looks for the package in the `python` of PATH, and heeds no other setting.
.PHONY: types
types: $(DEV_READY) ## Check types with mypy and pyright, and that the public face is fully typed
	.venv/bin/python -m mypy
	.venv/bin/python -m pyright
	PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m pyright --verifytypes toolgrade --ignoreexternal --outputjson \
		| .venv/bin/python .ci/check_public_types.py

.PHONY: pins
pins: ## Write requirements/ anew after a change of dependencies; UPGRADE=1 takes the newest of all, PACKAGES="..." of some
	@[ -x .venv/bin/uv ] || $(MAKE) --no-print-directory $(TEST_READY)
	@$(COMPILE) --group installer --output-file requirements/uv.txt
	@$(COMPILE) --group build --output-file requirements/build.txt
	@$(COMPILE) --group release --output-file requirements/release.txt
	@$(COMPILE) pyproject.toml --group dev --output-file requirements/dev.txt
	@$(COMPILE) pyproject.toml --group test --constraint requirements/dev.txt --output-file requirements/test.txt
	@$(COMPILE) pyproject.toml --group core --constraint requirements/dev.txt --output-file requirements/core.txt
	@$(COMPILE) --group fuzz --output-file requirements/fuzz.txt
	@$(COMPILE) pyproject.toml --group docs --constraint requirements/dev.txt --output-file requirements/docs.txt
	@$(COMPILE) pyproject.toml --group engines --constraint requirements/dev.txt --output-file requirements/engines.txt
	@$(COMPILE) --group mutants --constraint requirements/dev.txt --output-file requirements/mutants.txt
	@$(COMPILE) pyproject.toml --constraint requirements/dev.txt --output-file requirements/runtime.txt
	@$(COMPILE) pyproject.toml --resolution lowest-direct --output-file requirements/lowest.txt

.PHONY: clean
clean: ## Remove the environments and everything that tools left behind
	rm -rf .venv .ci-venvs build dist htmlcov .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(PYTHON_SOURCES) -type d -name __pycache__ -exec rm -rf {} +

$(TEST_READY): $(INSTALLER) requirements/test.txt
	@sh .ci/venv test $(HERE)

# The order-only prerequisite keeps `make -j` from installing twice at once.
$(DEV_READY): $(INSTALLER) requirements/dev.txt | $(TEST_READY)
	@sh .ci/venv dev $(HERE)
