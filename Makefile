# Every target sets up what it needs. `make demo` and `make test` are the two a newcomer types.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test check format docs screenshots bench kill envelopes split results results-check bookkeeper \
	test-bookkeeper clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt hatch_build.py src/equipoise/hub/shell/_sockets.c \
	src/equipoise/hub/cluster/_relays.c src/equipoise/hub/_slots.h src/equipoise/resp/_runs.c src/equipoise/resp/_runs.h
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench,pipeline,experiments]'
	@touch $@

demo: $(STAMP)
	$(BIN)/equipoise demo

# Two workers for each core: half of the time tests wait for processes, JVMs and browsers (tests/support/schedule.py). The
# longest tests are listed at the end. `make test KEEP=--keep-durations` writes down how long each module took. Compiled
# modules are kept even where the environment says not to: tests start hundreds of processes that load 700 modules each.
test: $(STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 4 --dist loadgroup --durations=25 $(KEEP)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)
	$(BIN)/equipoise reference write docs/reference

# The pictures of the dashboard in docs/images, from a system that runs for two minutes. Needs Chromium.
screenshots: $(STAMP)
	PYTHONPATH=tests $(BIN)/python tests/web/screenshots.py docs/images

bench: $(STAMP)
	$(BIN)/equipoise bench fanout --against redis,nats

# Ten minutes of kill -9, SIGSTOP and full disks on a system under load, and what became of its messages.
kill: $(STAMP)
	$(BIN)/python benchmarks/system/kill.py --pipeline --durable

# A rate limit over ten live hubs, under every kind of publisher and changes of the plan: prints what arrived.
envelopes: $(STAMP)
	$(BIN)/python benchmarks/system/envelopes.py

# A limited topic that is fitted, split, dealt and relieved by itself, over three live hubs: prints what became of it.
split: $(STAMP)
	$(BIN)/python benchmarks/system/split.py

# The papers' experiments in full size: about two hours. Pages and figures go to docs/results.
results: $(STAMP)
	$(BIN)/equipoise reproduce dynamoth --out docs/results
	$(BIN)/equipoise reproduce epulsar --out docs/results
	$(BIN)/equipoise reproduce padres --out docs/results
	$(BIN)/equipoise reproduce pulsar --out docs/results
	$(BIN)/equipoise reproduce srtm --out docs/results

# The quick size of every experiment against the verdicts that are kept: some 20 minutes.
results-check: $(STAMP)
	$(BIN)/equipoise reproduce --check docs/results --jobs 2

# The jars of Apache BookKeeper, from Maven Central: 93 MB. Needs mvn.
BOOKKEEPER := bookkeeper-jars

bookkeeper: $(BOOKKEEPER)/.ready

$(BOOKKEEPER)/.ready: ops/bookkeeper/pom.xml
	rm -rf $(BOOKKEEPER)
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DincludeScope=runtime \
		-DoutputDirectory=$(CURDIR)/$(BOOKKEEPER)
	@touch $@

# The tests of ledgers on bookies of Apache BookKeeper: some minutes.
test-bookkeeper: $(STAMP) bookkeeper
	EQUIPOISE_TEST_BOOKKEEPER=1 $(BIN)/python -m pytest --durations=25 -m needs_bookkeeper \
		tests/contracts/test_ledgers.py tests/ledger_client

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
