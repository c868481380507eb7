# One command for each wish. `make help` lists them.
# PYTHON=/path/to/python3 names the Python that makes .venv; else scripts/python.sh chooses.

VENV := .venv
RUN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help up web test check format test-long verify verify-long play fuzz fuzz-cost bench bench-junk bench-queue bench-take-over bench-scheduler bench-idle bench-nodes bench-map bench-calls bench-start bench-commands bench-join bench-first bench-failover bench-alerts bench-metrics bench-settle bench-tasks bench-dashboard bench-volumes bench-disks dashboard bench-gas contract captures house sentences docs lock release clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

up: $(VENV)/.run  ## start the whole platform on this machine (ARGS="--port 9000" passes options on)
	@exec $(RUN)/potluck up $(ARGS)

web: $(VENV)/.run  ## build the dashboard, if its sources have changed
	@$(RUN)/python -m scripts.web $(ARGS)

test:  ## every check and every test but the long ones
	@./scripts/test-needs.sh
	@$(MAKE) --no-print-directory check
	@./scripts/run-tests.sh $(ARGS)

check: $(VENV)/.dev  ## format, lint, types and the import contract
	@$(RUN)/ruff format --check .
	@$(RUN)/ruff check .
	@$(RUN)/mypy
	@$(RUN)/lint-imports --no-cache

format: $(VENV)/.dev  ## let ruff put the code in order
	@$(RUN)/ruff format .
	@$(RUN)/ruff check --fix .

test-long:  ## the tests that take minutes
	@./scripts/test-needs.sh
	@$(MAKE) --no-print-directory $(VENV)/.dev
	@$(RUN)/python -m pytest -m long $(ARGS)

verify: $(VENV)/.dev  ## 200 histories full of faults on PostgreSQL, as JSON
	@$(RUN)/python -m verification.faults --seeds 200 --json $(ARGS)

verify-long: $(VENV)/.dev  ## 10,000 histories full of faults; for the night
	@$(RUN)/python -m verification.faults --seeds 10000 --json $(ARGS)

play: $(VENV)/.dev  ## what consumers and providers gain by each end reason, as JSON
	@$(RUN)/python -m verification.play $(ARGS)

fuzz: $(VENV)/.dev  ## tens of thousands of wrong requests to a server of its own, counted as JSON
	@$(RUN)/python -m tests.fuzz.run $(ARGS)

fuzz-cost: $(VENV)/.dev  ## the most expensive request of each operation, and what a bystander waits, as JSON (ARGS="--seconds 60")
	@$(RUN)/python -m tests.fuzz.cost.run $(ARGS)

bench: $(VENV)/.dev  ## Potluck and its peers in turns, as a table, JSON and a plot (ARGS="--rounds 1 --peers DIR")
	@$(RUN)/python -m bench.compare $(ARGS)

bench-junk: $(VENV)/.dev  ## how long junk to every open route takes, as JSON
	@$(RUN)/python -m bench.junk $(ARGS)

bench-queue: $(VENV)/.dev  ## submit, list, status and cancel with a million tasks waiting, as JSON
	@$(RUN)/python -m bench.queue $(ARGS)

bench-take-over: $(VENV)/.dev  ## how soon a new leader places and knows a million tasks, as JSON
	@$(RUN)/python -m bench.take_over $(ARGS)

bench-scheduler: $(VENV)/.dev  ## decisions a second, as JSON (ARGS="--gpus 10000 --tasks 100000")
	@$(RUN)/python -m bench.scheduler $(ARGS)

bench-idle: $(VENV)/.dev  ## what a provider costs while it waits for work, as JSON (ARGS="--seconds 60")
	@$(RUN)/python -m bench.idle $(ARGS)

bench-nodes: $(VENV)/.dev  ## what 4,000 connected idle nodes cost the server, as JSON and a plot (ARGS="--seconds 60")
	@$(RUN)/python -m bench.nodes $(ARGS)

bench-map: $(VENV)/.dev  ## how many small items a second a map does, as JSON
	@$(RUN)/python -m bench.map $(ARGS)

bench-calls: $(VENV)/.dev  ## calls a second: one at a time, from 64 threads, in a loop; as JSON
	@$(RUN)/python -m bench.calls $(ARGS)

bench-start: $(VENV)/.dev  ## how soon a script begins and a warm function answers, as JSON
	@$(RUN)/python -m bench.start $(ARGS)

bench-commands: $(VENV)/.dev  ## how long short commands take, as multiples of an empty Python, as JSON
	@$(RUN)/python -m bench.commands $(ARGS)

bench-join: $(VENV)/.dev  ## from nothing to registered with one command, as JSON
	@$(RUN)/python -m bench.join $(ARGS)

bench-first: $(VENV)/.dev  ## from nothing to a first result with two commands, as JSON
	@$(RUN)/python -m bench.first $(ARGS)

bench-failover: $(VENV)/.dev  ## what is lost when servers, the primary or Redis are killed under load (ARGS="--json")
	@$(RUN)/python -m bench.failover $(ARGS)

bench-alerts: $(VENV)/.dev  ## how soon each alert arrives after its fault, as a table
	@$(RUN)/python -m bench.alerts

bench-metrics: $(VENV)/.dev  ## what metrics cost a request, and a scrape the event loop, as JSON
	@$(RUN)/python -m bench.metrics $(ARGS)

bench-volumes: $(VENV)/.dev  ## what putting, changing and mounting 2 GiB costs, as JSON (ARGS="--mib 256")
	@$(RUN)/python -m bench.volumes $(ARGS)

bench-disks: $(VENV)/.dev  ## what a disk image costs the start of a script, as JSON (ARGS="--scripts 100")
	@$(RUN)/python -m bench.disks $(ARGS)

bench-tasks: $(VENV)/.dev  ## scripts and commands a second, and what one costs, as JSON (ARGS=--growth)
	@$(RUN)/python -m bench.tasks $(ARGS)

bench-settle: $(VENV)/.dev  ## what settling adds to the time of completing a task, as JSON
	@$(RUN)/python -m bench.settle $(ARGS)

bench-dashboard: $(VENV)/.dev  ## what the dashboard costs a browser and its server, as JSON
	@$(RUN)/python -m bench.dashboard $(ARGS)

dashboard: $(VENV)/.dev  ## write the Grafana dashboard in deploy/grafana/
	@$(RUN)/python -m scripts.dashboard

bench-gas: $(VENV)/.dev  ## gas of each transaction of the rewards contract, as a table (ARGS=--json)
	@$(RUN)/python -m bench.gas $(ARGS)

contract: $(VENV)/.dev  ## compile the rewards contract
	@$(RUN)/python -m scripts.contract

captures: $(VENV)/.dev  ## take the pictures of the docs anew, in tmux and Chromium (ARGS=dashboard: only those)
	@$(RUN)/python -m tests.captures.run $(ARGS)

house: $(VENV)/.dev  ## the size and shape of the source, and the files that one run passes (ARGS="--verbose")
	@$(RUN)/python -m scripts.house $(ARGS)

sentences: $(VENV)/.dev  ## every sentence that users read, with its place
	@$(RUN)/python -m scripts.sentences

docs: $(VENV)/.dev  ## write the pages that are made from the code
	@$(RUN)/python -m scripts.docs

lock: $(VENV)/.dev  ## pin the newest dependencies that pyproject.toml allows
	@./scripts/environment.sh lock

release: $(VENV)/.dev  ## wheel, sdist, list of parts and checksums of the last commit, in dist/
	@./scripts/release.sh

clean:  ## remove the environment; data and profiles stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis

$(VENV)/.run: pyproject.toml locks/run.txt scripts/environment.sh
	@./scripts/environment.sh run

$(VENV)/.dev: pyproject.toml locks/dev.txt locks/generator.txt locks/release.txt scripts/environment.sh
	@./scripts/environment.sh dev
