# The commands of the project. Each works in a bare clone and installs what it needs.

.DEFAULT_GOAL := help

# rustup installs cargo there. A shell that was started before does not have it in PATH. A make that this one starts has
# the same PATH, because PyO3 is compiled again for another one.
cargo_programs := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin
export PATH := $(cargo_programs):$(patsubst $(cargo_programs):%,%,$(PATH))

# The build's results have fixed paths, independent of the caller's environment.
export CARGO_TARGET_DIR := $(CURDIR)/target
PYTHON := .venv/bin/python
SKIPPED := $(CURDIR)/target/skipped

# The binary is linked statically, so that it can be copied to a server. The linker prefers a shared library to a static one
# of the same folder, so the static libraries get a separate folder. (`cargo build` and `pip install .` link to shared
# libraries.) The flags are for the binary alone, so that it shares all crates with the libraries of QEMU and of Python.
static := $(addprefix target/static/lib,$(addsuffix .a,hwloc pfm sqlite3 udev))
# Relative relocations in their short form take 1.5 MiB less of the address space.
static_flags := -C target-feature=+crt-static -L native=target/static -C link-arg=-Wl,-z,pack-relative-relocs

# The scheduler of `pinfold daemon --with scx` is in the binary where what compiles it is there; evaluated after setup.
scheduler = $(shell command -v clang >/dev/null && test -e /usr/include/gelf.h -a -e /usr/include/zlib.h && echo scheduler)

demo: demo-binary setup-build ## place a real OpenMP program on this machine, and one on a simulated machine of four packages
	$(MAKE) -C workloads $(addprefix ../target/workloads/,stream random_access)
	scripts/demo

test: build check setup ## every check and every test, in both languages
	rm -f $(SKIPPED)
	$(MAKE) test-rust test-python
	$(MAKE) test-alone
	$(MAKE) test-guest-safety test-guest-rest
	@if [ -s $(SKIPPED) ]; then echo "Rust tests, or parts of them, that cannot run here:"; sort -u $(SKIPPED); fi

# With `--jobs=2` side by side: one compiles with all cores, and the other needs one core.
test-rust: setup
	PINFOLD_SKIPPED=$(SKIPPED) cargo test --workspace -- --skip $(alone)

# Processes of these tests have no parent, and are on one PU. A pinfold of another test beside them, in the same control
# groups, can take them for orphans of its own (crates/linux/src/journal/orphans.rs).
alone := an_orphan_that_a_user_pinned_earlier
alone_python := tests/test_reset.py

test-alone: build setup
	PINFOLD_SKIPPED=$(SKIPPED) cargo test --workspace --test orphans $(alone) >target/alone; status=$$?; cat target/alone; \
		[ $$status = 0 ] && grep -q "1 passed" target/alone
	$(PYTHON) -m pytest $(alone_python)

test-python: build pairs setup
	$(PYTHON) -m pytest tests --ignore tests/guest --ignore $(alone_python)
	$(PYTHON) -m pytest --doctest-modules python/pinfold

test-guest: build setup ## the tests that need several NUMA nodes, in an emulated machine; part of `make test`
	$(PYTHON) -m pytest tests/guest

# The same in two parts of about the same length, each with a machine of its own, for `--jobs=2`.
guest_safety := $(addprefix tests/guest/test_,children.py daemon_moves.py devices.py regions.py run_scheduler.py safety.py \
	thresholds.py)

test-guest-safety: build setup
	GUEST=safety $(PYTHON) -m pytest $(guest_safety)

test-guest-rest: build setup
	GUEST=rest $(PYTHON) -m pytest tests/guest $(addprefix --ignore=,$(guest_safety))

test-kills: build setup ## children of pinned tasks, kills and storms of cpusets at scale: 500 children, 200 kills of the daemon and of run each, 500 storms
	CHILDREN=500 KILLS=200 STORMS=500 $(PYTHON) -m pytest tests/guest tests/test_cpusets.py -k "children or kills or storm"

test-pages: build setup ## pages that the daemon moves after tasks, in the emulated machine, which hangs in one of ten runs
	PAGES=1 $(PYTHON) -m pytest tests/guest/test_daemon_pages.py

test-long: build setup ## found functions, whole runs and measured sweeps in the emulated machine, which take twenty minutes
	LONG=1 $(PYTHON) -m pytest $(addprefix tests/guest/test_,functions.py whole_runs.py measured_sweeps.py)

test-cluster: build setup ## a sweep on a one-node Slurm whose job hits its time limit, which takes two minutes
	TIME_LIMIT=1 $(PYTHON) -m pytest tests/test_sweep_slurm.py

test-release: build setup aarch64 root-file-systems ## what a release needs beside `make test`: aarch64, other distributions and languages
	RELEASE=1 $(PYTHON) -m pytest tests/test_aarch64.py tests/test_distributions.py tests/test_languages.py

check: setup-build setup-python ## formats, lints, types and the documentation of the crates
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets -- --deny warnings
	$(if $(scheduler),cargo clippy --package pinfold-scx --package pinfold-cli --all-targets \
		--features pinfold-cli/scheduler -- --deny warnings)
	$(if $(wildcard $(arm_sysroot)),$(arm_cargo) clippy --target $(arm) --package pinfold-cli -- --deny warnings)
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --quiet
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

build: binary workloads modules ## the binary target/release/pinfold, which contains agent and recorder, the workloads and the Python package

# The binary's package is named with the two libraries, though it has none: then all crates get the features that the binary
# needs, and are not compiled twice.
binary: setup-build $(static) scheduler-libraries
	cargo build --release --lib --package pinfold-plugin --package pinfold-py --package pinfold-cli \
		$(if $(scheduler),--features pinfold-cli/scheduler)
	install target/release/libpinfold_native.so python/pinfold/_native.abi3.so
	$(binary_rustc)
	$(MAKE) -C agent

# The same without the library of Python.
demo-binary: setup-build $(static) scheduler-libraries
	cargo build --release --lib --package pinfold-plugin --package pinfold-cli \
		$(if $(scheduler),--features pinfold-cli/scheduler)
	$(binary_rustc)

scheduler-libraries: setup-build
	$(if $(scheduler),$(MAKE) target/static/libelf.a target/static/libz.a)

binary_rustc = PINFOLD_RECORDER=$(CURDIR)/target/release/libpinfold_record.so \
	cargo rustc --release --package pinfold-cli $(if $(scheduler),--features scheduler) --bin pinfold -- $(static_flags)

workloads: setup-build
	$(MAKE) -C workloads

# Trees of two features (`pinfold learn train react`) reproduce a paper; no other command needs this program.
pairs: setup-build ## target/release/pinfold-pairs, the search for the features of trees of `react:tree`
	cargo build --release --package pinfold-pairs

# setup.py would also build it, but together with all Rust programs.
modules: setup-python
	$(CC) -O2 -g -Wall -Wextra -shared -fPIC -Iagent -I$$($(PYTHON) -c '$(include_path)') \
		-o python/pinfold/_heartbeat$$($(PYTHON) -c '$(module_suffix)') python/pinfold/_heartbeat.c

# The binary for aarch64 is linked as the one for x86-64 is, to the static libraries that `scripts/setup aarch64` has unpacked.
# It has no recorder, which records programs of x86-64. Where the libraries are there, `make check` lints this code too.
arm := aarch64-unknown-linux-gnu
arm_folder := $(CURDIR)/target/aarch64
arm_sysroot := $(arm_folder)/sysroot
arm_compiler := aarch64-linux-gnu-gcc
arm_cargo = CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$(arm_compiler) CC_aarch64_unknown_linux_gnu=$(arm_compiler) \
	PKG_CONFIG_SYSROOT_DIR_aarch64_unknown_linux_gnu=$(arm_sysroot) \
	PKG_CONFIG_LIBDIR_aarch64_unknown_linux_gnu=$(arm_sysroot)/usr/lib/aarch64-linux-gnu/pkgconfig \
	BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="-I$(arm_sysroot)/usr/include -I/usr/aarch64-linux-gnu/include" cargo
arm_flags := -C target-feature=+crt-static -L native=$(arm_folder)/static -L native=$(arm_sysroot)/usr/lib/aarch64-linux-gnu

aarch64: setup-aarch64 $(arm_folder)/static/libudev.a ## the binary for aarch64, target/aarch64-unknown-linux-gnu/release/pinfold
	RUSTFLAGS="$(arm_flags)" $(arm_cargo) build --release --target $(arm) --package pinfold-cli
	@ls -l --block-size=1 target/$(arm)/release/pinfold | awk '{print $$NF ": " $$5 " bytes"}'

root-file-systems: setup-build setup-python
	scripts/root-file-systems

setup-aarch64: setup-build
	scripts/setup aarch64

$(arm_folder)/static/libudev.a: crates/linux/static/udev.c | setup-aarch64
	mkdir -p $(@D)
	$(arm_compiler) -O2 -Wall -Wextra -fPIE -c -o $(@:.a=.o) $<
	aarch64-linux-gnu-ar rcs $@ $(@:.a=.o)

slurm: ## the plugin for Slurm, target/slurm/pinfold_spank.so; needs libslurm-dev
	$(MAKE) -C slurm

target/static/libudev.a: crates/linux/static/udev.c | setup-build
	mkdir -p $(@D)
	$(CC) -O2 -Wall -Wextra -fPIE -c -o $(@:.a=.o) $<
	$(AR) rcs $@ $(@:.a=.o)

target/static/lib%.a: | setup-build
	mkdir -p $(@D)
	ln -sf $$($(CC) -print-file-name=lib$*.a) $@

include_path := import sysconfig; print(sysconfig.get_path("include"))
module_suffix := import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))

bench: build setup ## the promised costs, as ratios; also in target/bench.json
	cargo run --release --package pinfold-bench

dist: build ## what people install, in target/dist: tarball, Debian package, wheel, bill of materials, checksums
	scripts/dist

site: build ## the documentation as a site, in target/site
	$(PYTHON) scripts/site

evaluation: bench pairs ## every figure, as JSON in evaluation/ and as pages in docs/evaluation/
	PYTHONPATH=python $(PYTHON) -m pinfold.evaluation

evaluation-quick: bench pairs ## a reduced set of them, in minutes
	PYTHONPATH=python $(PYTHON) -m pinfold.evaluation --quick

progress: build ## the rates of metrics beside the figures of real programs that are slowed; takes a quarter of an hour
	PYTHONPATH=python $(PYTHON) -m pinfold.evaluation progress

measured: build ## what policies gain on the measured table that PINFOLD_MEASURED names; takes five minutes
	PYTHONPATH=python $(PYTHON) -m pinfold.evaluation measured

reality: build workloads ## simulated regions beside those of the measured table, on machines of one shape; takes hours
	PYTHONPATH=python $(PYTHON) -m pinfold.evaluation reality

belief: build ## what beliefs gain, trial by trial, on the measured table and on simulated regions; takes ten minutes
	PYTHONPATH=python $(PYTHON) -m pinfold.evaluation belief

priors: build workloads ## models/belief.json from generated programs on varied machines (fewer: PRIORS='--programs 200'); takes hours
	PYTHONPATH=python $(PYTHON) -m pinfold.evaluation.priors $(PRIORS)
	PYTHONPATH=python $(PYTHON) -m pinfold.evaluation.priors --space whole $(PRIORS)
	PYTHONPATH=python $(PYTHON) -m pinfold.learn.command train belief --data target/evaluation/priors/priors.parquet \
		--data target/evaluation/priors/priors-whole.parquet --kib 60 -o models/belief.json

applications: build ## record real programs of Debian and PyPI, and make data sets of them; takes about two hours
	PYTHONPATH=python $(PYTHON) -m pinfold.applications

setup: setup-build setup-python setup-tests ## install what Debian, Rust and Python must provide; the other commands do this first

setup-build:
	scripts/setup build

setup-python: setup-build
	scripts/setup python

setup-tests: setup-build
	scripts/setup tests

fuzz: setup ## test the parsers with generated inputs, FUZZ_SECONDS (60) for each
	scripts/fuzz

clean: ## remove all results of builds, and the Python environment
	rm -rf target .venv

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo binary scheduler-libraries workloads pairs modules test test-rust test-alone test-python test-guest test-guest-safety test-guest-rest test-kills test-pages test-long test-release check build bench dist site evaluation evaluation-quick progress measured reality belief priors fuzz applications setup setup-build setup-python setup-tests setup-aarch64 aarch64 root-file-systems slurm clean help
