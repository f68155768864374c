# Two commands matter: `make demo` and `make test`. Both set up what they need.
PYTHON ?= python3
BENCH ?=
DEMO ?=
ABUSE ?=
DEPTH ?= deep
SEED ?= 1
FUZZ_SECONDS ?= 60
# workers of the quick tier: twice CI's number of cores, because the tests wait for servers half of the time
WORKERS ?= 4
FUZZ_TARGETS ?= codecs edits http image key-stores merge rpc security
VENV := .venv
BIN := $(VENV)/bin
MODES ?= snapshot mixed crafted
SEEDS ?= 100
# release of the real Hadoop servers: 2.7.3, 3.3.6, 3.4.2 or 3.5.0
RELEASE ?=
# the requirements of the product itself are installed first, then the requirements of the build and the tests
RUNS_STAMP := $(VENV)/.runs
STAMP := $(VENV)/.ready
FUZZ := .fuzz/venv
FUZZ_STAMP := $(FUZZ)/.ready
# the Python for which packages are built; for a Debian package, the Python of the distribution
TARGET_PYTHON ?= /usr/bin/python3
# extras in the packages, in addition to the libraries that every cluster needs
EXTRAS ?= kerberos tls
INSTALL = DIST_EXTRA_CONFIG=$(CURDIR)/requirements/wheel.cfg $(BIN)/python -m pip install --no-compile --disable-pip-version-check --require-hashes
DIST := dist
WHEELHOUSE := $(DIST)/wheelhouse
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# the GnuPG key that signs a release
KEY ?=
DEEP := CHECKPOINTER_TEST_DEPTH=$(DEPTH) CHECKPOINTER_TEST_SEED=$(SEED)
ON_RELEASE := CHECKPOINTER_TEST_HADOOP=$(RELEASE)
PROTOS := $(wildcard hadoop_rpc/proto/*.proto image_format/proto/*.proto journal/proto/*.proto)

# container images set this variable, which would make each of hundreds of processes compile every module that it imports
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup wheel sdist wheelhouse deb release demo demo-bookkeeper demo-ha demos-loaded test test-deep test-loaded unit interop differential interop-setup kills faults fuzz lint types layers wording check bench bench-archive bench-compress bench-scale bench-large bench-shapes bench-standby bench-live-reads bench-browsers bench-journal bench-transfer bench-pipeline bench-dump load abuse screenshots format generated lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 18

setup: $(STAMP) ## make .venv with pinned requirements and compile the .proto files

$(STAMP): $(RUNS_STAMP) requirements/dev.txt
	@echo "installing the tools for builds and tests, which takes half a minute"
	$(INSTALL) -r requirements/dev.txt
	@touch $@

$(RUNS_STAMP): requirements/build.txt requirements/spark.txt pyproject.toml hatch_build.py $(PROTOS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing the pinned packages into $(VENV), which takes a minute on an idle machine with a fast network"
	$(INSTALL) -r requirements/build.txt -r requirements/spark.txt
	$(BIN)/python hatch_build.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

wheel: setup ## the wheel with units, configuration, documents, man pages and completion, and constraints.txt, in dist/
	rm -rf build/share $(DIST)/hdfs_checkpointer-*.whl && $(BIN)/python -m install.man_pages build/share
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(DIST) .
	sed -nE 's/^([A-Za-z0-9_.-]+==[^ \]+( ;[^\]*)?).*/\1/p' requirements/runtime.txt $(EXTRAS:%=requirements/%.txt) | sort -u > $(DIST)/constraints.txt

wheelhouse: wheel ## everything that an installation without a network needs, for TARGET_PYTHON, in dist/wheelhouse/; EXTRAS=tls omits Kerberos
	mkdir -p $(WHEELHOUSE) && rm -f $(WHEELHOUSE)/*
	set -e; for needed in runtime $(filter-out kerberos,$(EXTRAS)); do \
	  $(TARGET_PYTHON) -m pip download --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r requirements/$$needed.txt --dest $(WHEELHOUSE); done
ifneq ($(filter kerberos,$(EXTRAS)),)
	@command -v krb5-config > /dev/null || { echo "Kerberos is built with gcc, python3-dev and libkrb5-dev: install them (apt-get install gcc python3-dev libkrb5-dev), or omit Kerberos with EXTRAS=tls"; exit 1; }
	$(TARGET_PYTHON) -m venv build/kerberos
	build/kerberos/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/kerberos-build.txt
	CFLAGS=-g0 build/kerberos/bin/python -m pip wheel --quiet --disable-pip-version-check --no-cache-dir --no-build-isolation --require-hashes -r requirements/kerberos.txt --wheel-dir $(WHEELHOUSE)
endif
	cp $(DIST)/hdfs_checkpointer-$(VERSION)-py3-none-any.whl $(DIST)/constraints.txt $(WHEELHOUSE)

sdist: setup ## the source archive, in dist/
	$(BIN)/python -m hatchling build -t sdist -d $(DIST)

deb: wheelhouse ## the Debian package for TARGET_PYTHON, in dist/
	rm -f $(DIST)/hdfs-checkpointer_*.deb
	$(TARGET_PYTHON) -m install.deb $(WHEELHOUSE) $(DIST)

release: setup ## every package of the commit, its bill of materials, SHA256SUMS and a signature with KEY=FINGERPRINT, in dist/release-VERSION/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/release.txt
	@$(BIN)/python -m install.release "$(KEY)" "$(TARGET_PYTHON)" "$(EXTRAS)"

demo: $(RUNS_STAMP) ## a NameNode stub and the daemon: two checkpoints, a kill, a restart, a deletion undone; then Spark merges and reports; DEMO=--serve keeps the console
	$(BIN)/python -m namenode_stub.demo $(DEMO)

demo-bookkeeper: $(RUNS_STAMP) ## a NameNode stub on four of our bookies and a ZooKeeper: a bookie and the stub are killed under load, nothing is lost
	$(BIN)/python -m namenode_stub.demo_bookkeeper

demo-ha: $(RUNS_STAMP) ## two NameNode stubs on three JournalNodes fail over automatically during writes (killed, hung, host lost, on request); prints each gap in ms
	$(BIN)/python -m namenode_stub.demo_ha

test: check interop-setup ## everything CI runs: a sample of every kind of test
	CHECKPOINTER_TEST_HADOOP=2.7.3 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m both_generations $$(grep -l both_generations tests/interop/test_*.py)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-loaded: check interop-setup ## `make test` RUNS=10 times, AT_ONCE=1 at the same time, with LOAD=4 busy processes; finds tests that assume a fast machine
	$(BIN)/python -m tests.tools.loaded tests --runs $(or $(RUNS),10) --load $(or $(LOAD),4) --at-once $(or $(AT_ONCE),1)

demos-loaded: setup ## RUNS=20 of each of DEMOS, FRESH=5 of these in fresh clones with empty homes, with LOADS="0 4 8" busy processes, AT_ONCE=1 at the same time
	$(BIN)/python -m tests.tools.loaded demos --runs $(or $(RUNS),20) --fresh $(or $(FRESH),5) --loads $(or $(LOADS),0 4 8) --demos $(or $(DEMOS),demo demo-ha demo-bookkeeper) --at-once $(or $(AT_ONCE),1)

test-deep: check interop-setup ## all tests in the deep tier, takes hours; DEPTH=3 for three times as many random cases, SEED=2 for other cases
	$(DEEP) $(BIN)/python -m pytest -n 2 --dist loadgroup --durations 30
	set -e; for release in 2.7.3 3.3.6 3.4.2; do $(MAKE) interop RELEASE=$$release DEPTH=$(DEPTH); done

unit: setup ## the quick tests that do not need Hadoop
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not interop"

interop: interop-setup ## the tests with a real Hadoop, with servers of RELEASE=3.5.0: a sample in minutes, or with DEPTH=deep all tests in hours
	$(ON_RELEASE) $(if $(filter file,$(origin DEPTH)),,$(DEEP)) $(BIN)/python -m pytest -n 2 --dist loadgroup -m interop

differential: interop-setup ## SEEDS=100 random recordings of a real NameNode of RELEASE=3.5.0 in each of MODES="snapshot mixed crafted", compared with our merge; SEED=2 for other recordings
	$(ON_RELEASE) $(DEEP) MODES="$(MODES)" SEEDS=$(SEEDS) $(BIN)/python -m pytest -n 2 -q tests/interop/test_differential.py tests/interop/test_crafted.py

kills: setup ## kills of writers, JournalNodes and daemons, with DEPTH=deep: everything acknowledged is recovered
	$(DEEP) $(BIN)/python -m pytest -n 2 -q $$(find tests -name 'test_*_kills.py')

faults: interop-setup ## EIO and ENOSPC in every system call of every operation (strace), one per run: each causes an error message, and nothing is lost
	$(DEEP) $(BIN)/python -m pytest -n 2 -rP tests/faults

interop-setup: setup ## fetch a JDK, Maven, Chromium, strace and a KDC (with apt), jars of Hadoop 3.5.0 (65 MB) and 2.7.3 (220 MB), or of RELEASE alone, gssapi and pure-sasl (with pip), and compile the tests' kernels, once
	$(BIN)/python -m tests.interop $(RELEASE)
	$(BIN)/python -m tests.faults
	$(BIN)/python -m tests.kerberos
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/sasl.txt
	$(BIN)/python -m tests.browser
	$(BIN)/python -m tests.pipeline.quick_java
	$(BIN)/python -m tests.kernels

fuzz: setup $(FUZZ_STAMP) ## search for inputs that break a reader, FUZZ_SECONDS=60 for each of FUZZ_TARGETS
	set -e; for target in $(FUZZ_TARGETS); do $(FUZZ)/bin/python -m tests.fuzz $$target --seconds $(FUZZ_SECONDS); done

$(FUZZ_STAMP): requirements/runtime.txt requirements/tls.txt requirements/fuzz.txt
	test -x $(FUZZ)/bin/python || $(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.txt -r requirements/tls.txt -r requirements/fuzz.txt
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

wording: setup
	$(BIN)/python -m tests.tools.wording

check: lint types layers wording ## only the static checks

format: setup ## rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generated: setup ## rewrite the documents, schemas, alert rules and dashboard that are generated from declarations, and record additions to the interface
	$(BIN)/python -m tests.tools.status_schema --write
	$(BIN)/python -m tests.tools.doc_tables
	$(BIN)/python -m tests.tools.opcode_table --write
	$(BIN)/python -m pipeline.tables.manual --write docs/pipeline-tables.md
	$(BIN)/python -m install.monitoring
	$(BIN)/python -m tests.tools.interface --write

screenshots: setup ## remake the pictures of the report page and the console in docs/images
	$(BIN)/python -m tests.browser
	$(BIN)/python -m tests.pipeline.screenshots
	$(BIN)/python -m tests.console.screenshots

load: setup ## the daemon next to a busy stub: 1,000 calls per second for 2 minutes
	$(BIN)/python -m bench.load

abuse: setup ## ABUSE="--minutes 3 --connections 20": hostile clients of all ports of a working cluster: latency, memory, descriptors, threads
	$(BIN)/python -m bench.abuse $(ABUSE)

bench: interop-setup ## our merge, Hadoop's merge and md5sum + cp in eleven scenes, to bench/results.md; BENCH="--inodes 10000000 --mix jobs" for one scene
	$(BIN)/python -m bench $(BENCH)

bench-shapes: setup ## time merges of unusual namespaces and of the namespace of jobs, to bench/shapes.md
	$(BIN)/python -m bench.shapes $(BENCH)

bench-standby: setup ## a standby's checkpoint of a warm namespace of 10 million inodes next to the floor, its upload over loopback and at 1 Gbit/s, and the cost of applying edits; BENCH="--rounds 50"
	$(BIN)/python -m bench.standby $(BENCH)

bench-browsers: setup ## checkpoints of a daemon without browsers and with 50 browsers that show its console; BENCH="--inodes 1000000"
	$(BIN)/python -m bench.browsers $(BENCH)

bench-live-reads: setup ## 200 clients that list and count a served namespace, while edits are applied and during a checkpoint; BENCH="--sums" or "--turns"
	$(BIN)/python -m bench.live_reads $(BENCH)

bench-scale: setup ## time and memory per inode and transaction from 1 to 50 million inodes, with a linear model, to bench/scale.md
	$(BIN)/python -m bench.scale $(BENCH)

bench-large: setup ## a whole checkpoint of 10 to 300 million inodes, as far as two images fit on the disk; BENCH="--cgroup /sys/fs/cgroup/memory": a merge with 2 GiB, page cache included
	$(BIN)/python -m bench.large $(BENCH)

bench-archive: setup ## 30 days of an archive, compared with borg and restic backups of the daily images: sizes, seconds per day, memory; BENCH="--inodes 1000000"
	$(BIN)/python -m bench.archive $(BENCH)

bench-compress: setup ## seconds to write an image with each codec: on all cores, in one thread, as one zlib stream
	$(BIN)/python -m bench.compress $(BENCH)

bench-journal: setup ## transactions per second through the edit log for 1, 8 and 64 writers, compared with one fsync per transaction
	$(BIN)/python -m bench.edit_log

bench-transfer: setup ## BENCH="--size 1 --dir /dev/shm": GET and PUT of an image on loopback next to curl and nginx, with and without TLS, and a transfer that is throttled
	$(BIN)/python -m bench.transfer $(BENCH)

bench-dump: interop-setup ## an image of a million files as text, compared with Hadoop's OIV; BENCH="--files 5000000"
	$(BIN)/python -m bench.dump $(BENCH)

bench-pipeline: interop-setup ## images of 1 and 5 million files to Parquet on 2 cores, compared with Hadoop's OIV; reports and merges on Spark; BENCH="--lake": two days in a lake
	$(BIN)/python -m bench.pipeline $(BENCH)

lock: ## update the pinned requirements (needs uv)
	cd requirements && set -e; for name in $(basename $(notdir $(wildcard requirements/*.in))); do \
	  uv pip compile --universal --python-version=3.11 --generate-hashes --quiet --output-file=$$name.txt $$name.in; done

clean: ## remove the files that setup and the tests created
	rm -rf $(VENV) build $(DIST) .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} + ; find . -name '*_pb2.py*' -delete
