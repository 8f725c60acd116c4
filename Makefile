# Weft: a short front for CMake. `make quickstart` and `make test` each suffice on a fresh machine;
# everything else expects the packages of `make deps`.

BUILD        ?= build
PREFIX       ?= /usr/local
JOBS         ?= $(shell nproc)
FUZZ_SECONDS ?= 10
CLANG        ?= clang-19
ifeq ($(origin CC),default)
CC           := gcc
endif

# The release build also carries the tests; the others live inside its folder.
ASAN    := $(BUILD)/asan
TSAN    := $(BUILD)/tsan
FUZZERS := $(BUILD)/fuzzers
CTEST   := ctest --output-on-failure --no-tests=error -j $(JOBS)
TIDY    := clang-tidy-19

.PHONY: all weft quickstart test sanitize test-gpu test-frameworks test-api smoke cross portable bare deb deb-check wheel wheel-check container-check tsan mutants bench bench-papers fuzz install format lint analyze deps \
        docs clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS)

weft: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS) weft profiles

quickstart:
	tools/install-deps.sh build
	$(MAKE) --no-print-directory weft
	@tools/quickstart.sh $(BUILD)/weft

# Release build (gcc, warnings are errors) and its tests.
test:
	tools/install-deps.sh build test
	$(MAKE) --no-print-directory all
	$(CTEST) --test-dir $(BUILD) -LE lint

# The same tests, but for those about answers, under clang's address and undefined-behaviour sanitizers; of random cases
# and of long tables a tenth as many: they are several times as slow there, and what they show there are errors of
# memory, not how good answers are.
sanitize:
	tools/install-deps.sh build test
	$(MAKE) --no-print-directory $(ASAN)/build.ninja
	ninja -C $(ASAN) -j $(JOBS)
	WEFT_TEST_PERCENT=10 ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
	    ASAN_SYMBOLIZER_PATH=$$(command -v llvm-symbolizer-19) $(CTEST) --test-dir $(ASAN)

# Exported files through the frameworks' own parsers and configuration classes, small ones trained for some steps on
# CPUs. Apart from `test`: it installs the frameworks from the Python package index. What the index lacks is given as
# AGAINST="--against megatron-0.16.1=SOURCE_TREE ...".
test-frameworks: weft
	tools/test-frameworks.sh $(BUILD)/weft $(BUILD)/frameworks $(AGAINST)

test-api: weft
	tools/test-api.sh $(BUILD)/weft $(BUILD)/api

# Kernels and runs on this machine's GPU, by the tests that hold the CPU's (tools/test-gpu.sh says what they are).
GPU_TESTS := test_kernels test_precision test_choices test_run test_run_order test_run_network test_run_limits test_run_bf16 \
             test_run_precision test_run_state test_run_mpi
test-gpu: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS) weft $(GPU_TESTS)
	tools/test-gpu.sh $(BUILD) $(JOBS)

# Bytes, numbers and files of models, plans and tensors, an event simulation, kernels: what a processor
# may change, and quick enough to be emulated. Of random cases few, for emulation is slow.
SMOKE := test_base test_doc test_import test_import_onnx test_plan_file test_schedule test_engine \
         test_kernels test_blas test_safetensors test_vocabulary test_data test_inspect
smoke: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS) weft profiles $(SMOKE)
	WEFT_TEST_PERCENT=2 $(CTEST) --test-dir $(BUILD) -R "^($$(echo $(SMOKE) quickstart | tr ' ' '|'))$$"

# The same for the other of arm64 and x86-64 under qemu-user; warnings are errors there, too.
cross:
	tools/install-deps.sh build cross
	WEFT_TEST_PERCENT=2 tools/cross.sh $(BUILD)/cross $(JOBS) $(SMOKE)

# One x86-64 program that needs glibc at its start and nothing else, $(BUILD)/portable/weft, with its databases beside it: CUDA,
# NCCL and MPI are opened when a run asks for them. From arm64 it is a cross build.
portable:
	tools/install-deps.sh build
	tools/portable.sh $(BUILD) $(JOBS)

# The README's commands from a fresh clone in a bare Debian of each processor: needs root, takes hours
# where the processor is emulated.
bare:
	tools/install-deps.sh cross
	tools/bare.sh $(BUILD)/bare arm64
	tools/bare.sh $(BUILD)/bare amd64

# Debian packages in $(BUILD)/deb/ARCH; ARCH=amd64 or arm64 says for which processor.
ARCH ?= $(shell dpkg --print-architecture 2>/dev/null)
# The project has no mail address that a package could name.
NO_ADDRESS := bogus-mail-host,bogus-mail-host-in-debian-changelog
deb:
	tools/install-deps.sh build deb
	tools/deb.sh $(BUILD)/deb $(ARCH)
	lintian --fail-on error,warning --suppress-tags $(NO_ADDRESS) $(BUILD)/deb/$(ARCH)/*.deb

# The same packages installed and used in a clean Debian: needs root.
deb-check: deb
	tools/deb-check.sh $(BUILD)/deb $(ARCH)

# A wheel with the library, the program and their data inside.
wheel:
	python3 -m pip wheel --no-deps --wheel-dir $(BUILD)/wheel .

# The same installed and used in a virtual environment.
wheel-check:
	tools/install-deps.sh build wheel
	tools/wheel-check.sh $(BUILD)/wheel

# The Containerfile's steps in folders, for machines without podman: needs root.
container-check:
	tools/install-deps.sh cross
	tools/container-check.sh $(BUILD)/container

# Ranks that are threads, under clang's thread sanitizer: a race is an error. Apart from `test`, which it
# would take two minutes longer.
tsan: $(TSAN)/build.ninja
	ninja -C $(TSAN) -j $(JOBS) test_run test_run_network test_run_limits test_train
	WEFT_TEST_PERCENT=20 TSAN_SYMBOLIZER_PATH=$$(command -v llvm-symbolizer-19) \
	    $(CTEST) --test-dir $(TSAN) -R '^test_(run|run_network|run_limits|train)$$'

# Faults of one line, put into a copy of the tree one at a time: do the tests notice? About an hour on two cores.
# ONLY=exchange,bucket tries those whose name or file contains a word, SAMPLE=60 SEED=7 so many of them by lot, PART=1/3
# the first third. What is known is kept in the build folder: a run that was cut off goes on; AGAIN=1 begins anew.
SAMPLE ?= 0
SEED ?= 1
PART ?= 1/1
mutants:
	@mkdir -p $(BUILD)/mutants
	$(if $(AGAIN),rm -f $(BUILD)/mutants/outcomes)
	nice tests/mutants/mutants.py --only "$(ONLY)" --sample $(SAMPLE) --seed $(SEED) --part $(PART) --jobs $(JOBS) \
	    --copies $(BUILD)/mutants --resume $(BUILD)/mutants/outcomes

# Those of papers' tables take minutes: `make bench-papers`.
bench: BENCHES = $(filter-out %_paper,$(wildcard $(BUILD)/bench/bench_*))
bench-papers: BENCHES = $(wildcard $(BUILD)/bench/bench_*_paper)
bench bench-papers: all
	@for bench in $(BENCHES); do [ -x "$$bench" ] || continue; \
	    echo "== $${bench##*/}"; "$$bench" || exit 1; done

# Each fuzz target for FUZZ_SECONDS, JOBS at a time; what it finds goes to the build folder, not to the corpus. What a
# target prints is in FOUND/NAME.log; a line says how many inputs it ran, or that it found something.
fuzz: $(FUZZERS)/build.ninja
	ninja -C $(FUZZERS) -j $(JOBS) fuzzers
	@find $(FUZZERS)/fuzz -name 'fuzz_*' -type f -executable | sort | xargs -P $(JOBS) -n 1 sh -c ' \
	    name=$${0##*/fuzz_}; found=$(FUZZERS)/found/$$name; mkdir -p "$$found"; \
	    "$$0" -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
	        -artifact_prefix="$$found-" "$$found" "fuzz/corpus/$$name" > "$$found.log" 2>&1; ended=$$?; \
	    echo "fuzz_$$name: $$(grep -o "number_of_executed_units: *[0-9]*" "$$found.log" | grep -o "[0-9]*$$") inputs in" \
	        "$(FUZZ_SECONDS) s, exit code $$ended"; \
	    [ $$ended = 0 ] || { tail -n 30 "$$found.log"; exit 1; }'

# DESTDIR is honoured.
install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

format:
	find include src tests fuzz bench tools -name '*.[ch]' | xargs clang-format-19 -i

# What reads files: format, scripts, rooms, names, the documents and every command in them, cppcheck, clang-tidy.
lint:
	tools/install-deps.sh build test
	$(MAKE) --no-print-directory all $(ASAN)/build.ninja
	$(CTEST) --test-dir $(BUILD) -L lint
	run-$(TIDY) -quiet -p $(ASAN) -j $(JOBS) '^$(CURDIR)/src/.*\.c$$' > $(BUILD)/tidy.log 2>&1 || \
	    { grep -A 3 -E ' (error|warning): ' $(BUILD)/tidy.log; exit 1; }

# Clang's path-sensitive analyzer: findings to read, not a verdict.
analyze: $(ASAN)/build.ninja
	run-clang-tidy-19 -quiet -p $(ASAN) -j $(JOBS) -header-filter='src/.*' \
	    -checks='-*,clang-analyzer-*,-clang-analyzer-security.*,-clang-analyzer-optin.*' \
	    -warnings-as-errors='-*' 'src/.*/.*\.c$$'

deps:
	tools/install-deps.sh build test

# Runs the commands shown in README.md and docs/ and writes what they print now below them.
docs: weft
	tests/checks/check-docs.py --update $(BUILD)/weft

clean:
	rm -rf $(BUILD)

$(BUILD)/build.ninja:
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=$(CC)

$(ASAN)/build.ninja:
	cmake -S . -B $(ASAN) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DCMAKE_C_COMPILER=$(CLANG) -DWEFT_SANITIZE=ON

$(TSAN)/build.ninja:
	cmake -S . -B $(TSAN) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DCMAKE_C_COMPILER=$(CLANG) -DWEFT_SANITIZE=thread

$(FUZZERS)/build.ninja:
	cmake -S . -B $(FUZZERS) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DCMAKE_C_COMPILER=$(CLANG) -DWEFT_SANITIZE=ON -DWEFT_FUZZ=ON
