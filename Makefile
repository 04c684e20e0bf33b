# Everything is kept in .venv; nothing else on the machine is touched, but for root on Debian: python3-venv, and for
# the tests the programs that .ci/test names, are installed if they are missing.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
MADE := $(VENV)/made

# Made again, too, if it is of another Python than is asked for.
ifneq ($(PYTHON),)
ifneq ($(shell $(VENV)/bin/python -V 2>/dev/null),$(shell $(PYTHON) -V))
.PHONY: $(MADE)
endif
endif

.PHONY: help venv demo test coverage lint format generate reference snapshot screenshots bench clean

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(MADE) ## Make .venv with the programs, the examples and the tools of the developers

$(MADE): pyproject.toml .ci/make-venv
	@.ci/make-venv $(VENV)
	@touch $@

demo: venv ## Run the examples on a server and a worker, kill a process on the way, prove that nothing is lost
	@$(VENV)/bin/python -m jobs_example.demo

test: venv ## Run everything: lint, types, and all tests
	@.ci/test $(VENV)

coverage: venv ## Run everything, and say which lines the tests run; takes about twice as long
	@.ci/test $(VENV) coverage

lint: venv ## Check style and types only
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/mypy

format: venv ## Put the code into its form
	@$(VENV)/bin/ruff format
	@$(VENV)/bin/ruff check --fix

generate: venv ## Write the generated modules anew: the clients' methods, the structs of the wire, the reference
	@$(VENV)/bin/python tools/generate_messages.py
	@$(VENV)/bin/python tools/generate_calls.py
	@$(VENV)/bin/python tools/generate_blocking.py
	@$(VENV)/bin/python docs/make_reference.py

reference: venv ## Write docs/reference anew from the code
	@$(VENV)/bin/python docs/make_reference.py

snapshot: venv ## Write anew what users can see, for tests/surface, after a change of it on purpose
	@$(VENV)/bin/python -m tests.surface.snapshot

screenshots: venv ## Take the pictures of the dashboard anew, with Chromium
	@$(VENV)/bin/python tools/screenshots.py

bench: venv ## Measure
	@$(VENV)/bin/python -m benchmarks

clean: ## Remove all that was made
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
