# Everything a person runs. Each target installs what it needs; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
SLURM_SUITE ?= trixie
CLUSTER ?= sunkpy
BENCH ?= all
export SLURM_SUITE
export SUNKPY_CLUSTER := $(CLUSTER)
# Tests are compiled once, not at every start.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready
# A test that hangs fails after twenty minutes; in unit after five. If it hangs then, too, the run ends (pyproject.toml).
PYTEST := $(BIN)/python -m pytest --timeout=1200
UNIT := $(PYTEST) --timeout=300 -o faulthandler_timeout=600
# Where linters keep what they know of files that have not changed; CI has one place for all its clones.
CHECK_CACHE := $(or $(SUNKPY_CHECK_CACHE),.)
export RUFF_CACHE_DIR := $(CHECK_CACHE)/.ruff_cache
export MYPY_CACHE_DIR := $(CHECK_CACHE)/.mypy_cache
# How unit and integration run beside the whole, which takes longest: after it in line for a processor.
BESIDE ?=
# Which tests of integration and e2e: all, unless `make test` says otherwise.
WHICH ?=

.PHONY: help demo build programs archives test long release-check release machines lint unit unit-files unit-code integration \
  real-slurm on-slurm off-slurm e2e bench images charts docs sizes clean-cluster clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(READY): pyproject.toml uv.lock tools/bootstrap
	@tools/bootstrap $(PYTHON)
	@touch $@

demo: $(READY) ## A real cluster from nothing, charts installed, the story told on it
	$(BIN)/python -m demo --suite $(SLURM_SUITE)

build: $(READY) ## Programs of clusters and images of both versions of Slurm: what demo and tests would wait for
	@$(MAKE) --no-print-directory --jobs=2 programs archives

# Its two halves, which run beside each other: an image mostly waits for its packages.
programs: $(READY)
	$(BIN)/python -m devcluster programs

archives: $(READY)
	$(BIN)/python slurm-images/build --suite trixie --only slurm mariadb sunkpy openldap
	$(BIN)/python slurm-images/build --suite sid --only slurm

test: lint build ## Everything that must hold, but for `make release-check`
	@$(MAKE) --jobs=6 --output-sync=target BESIDE='nice -n 10' WHICH="-m 'not long'" unit real-slurm on-slurm off-slurm e2e

long: $(READY) ## What takes minutes: rolls under services, login pods of one's own, databases that die
	@$(MAKE) --jobs=2 --output-sync=target BESIDE='nice -n 10' WHICH="-m 'long and not machines'" integration e2e

release-check: $(READY) ## What takes hours, in parts: PART=<name> for one; reports in build/reports/release
	$(BIN)/python tools/release-check $(PART)

release: $(READY) ## Build and publish a release; RELEASE="VERSION --registry REGISTRY --sign KEY"; without it, how
	$(BIN)/python tools/release $(or $(RELEASE),--help)

machines: $(READY) ## On a virtual machine with cgroup v2: what jobs get, and a node that is switched off
	$(PYTEST) tests/integration -m machines
	$(BIN)/python -m tests.bench machines --strict

lint: $(READY) ## Style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir $(CHECK_CACHE)/.import_linter_cache

unit: unit-files unit-code ## Pure decisions, clients against recorded answers, charts and scripts

# Its two parts, which `make test` runs side by side: charts, docs and scripts of images, whose tests run programs, and our code.
UNIT_FILES := tests/unit/charts tests/unit/docs tests/unit/slurm_images

unit-files: $(READY)
	$(BESIDE) $(UNIT) --minutes=unit-files $(UNIT_FILES)

unit-code: $(READY)
	$(BESIDE) $(UNIT) --minutes=unit-code tests/unit $(UNIT_FILES:%=--ignore=%)

integration: $(READY) ## Real programs without the whole: a small real cluster, its faults, its clean end
	$(BESIDE) $(PYTEST) --minutes=integration tests/integration $(WHICH)

# Its three parts, which `make test` runs side by side: our processes against Slurm's daemons, the files of charts and images
# with those daemons, and what needs no Slurm.
real-slurm: $(READY)
	$(BESIDE) $(PYTEST) --minutes=real-slurm tests/integration/slurm/test_real_*.py $(WHICH)

on-slurm: $(READY)
	$(BESIDE) $(PYTEST) --minutes=on-slurm tests/integration/slurm --ignore-glob='*/test_real_*' $(WHICH)

off-slurm: $(READY)
	$(BESIDE) $(PYTEST) --minutes=off-slurm tests/integration --ignore=tests/integration/slurm $(WHICH)

e2e: $(READY) ## The whole on a real cluster: the story, hand-over, faults, rights
	$(PYTEST) --minutes=e2e tests/e2e $(WHICH)

bench: $(READY) ## Measure; BENCH=<name> for one. Reports in build/reports
	$(BIN)/python -m tests.bench $(BENCH)

# CHECK=updates asks Debian for newer packages, FRESH=1 takes them; PUSH=registry.example.com/sunkpy, COSIGN=cosign.key signs.
# ARCH=arm64 emulates, slowly. SOURCE=slurm-25.11.1.tar.bz2 compiles that Slurm.
images: $(READY) ## Container images as archives in build/images; CHECK=updates, FRESH=1, PUSH=REGISTRY, COSIGN=KEY, ARCH=arm64, SOURCE=TARBALL
	$(BIN)/python slurm-images/build --suite $(SLURM_SUITE) --only slurm mariadb sunkpy openldap \
	  $(if $(filter updates,$(CHECK)),--check-updates) $(if $(FRESH),--fresh) $(if $(PUSH),--push $(PUSH)) \
	  $(if $(COSIGN),--sign $(COSIGN)) $(if $(SOURCE),--slurm-source $(SOURCE)) \
	  $(if $(ARCH),--arch $(ARCH))

charts: $(READY) ## Charts as packages in build/charts; SIGN="--sign --key NAME --keyring FILE"
	$(BIN)/python tools/package-charts $(SIGN)

docs: $(READY) ## docs/ as a site with search, in build/site
	$(BIN)/properdocs build

sizes: $(READY) ## How large parts, files, classes, functions and pages are
	@$(BIN)/python tools/print-sizes

# Its own, and those that benches and tests have for themselves: one that was killed leaves it.
clean-cluster: $(READY) ## Remove the development cluster and all it left on this machine
	@for each in $(CLUSTER) $(CLUSTER)-{room,devices,gitops,ha,machines,release,upgrade}; do \
	  $(BIN)/python -m devcluster down --name $$each || exit; done

clean: clean-cluster ## Remove the cluster, the build output and the virtual environment
	rm -rf build .venv
