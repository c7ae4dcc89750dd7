# A thin front on CMake and scripts/. `make help` lists the targets.
# Variables: BUILD (build), CC, CMAKE_FLAGS, FUZZ_SECONDS (60), PREFIX (/usr/local), T (test filter).

BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
JOBS ?= $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
# Ninja when it is there; CMake reads this only when it first configures a folder.
ifneq ($(shell command -v ninja 2>/dev/null),)
export CMAKE_GENERATOR ?= Ninja
endif

# CC likewise, but not the default that make itself makes up.
ifneq ($(origin CC),default)
export CC
endif

COMPILE = cmake --build $(BUILD) --parallel $(JOBS)

.PHONY: all
all: $(BUILD)/CMakeCache.txt ## build the library and build/sinew
	@$(COMPILE)

$(BUILD)/CMakeCache.txt:
	@cmake -S . -B $(BUILD) $(CMAKE_FLAGS)

.PHONY: demo
demo: ## install what is missing, build, run the demonstration into demo-out/
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory all
	@$(BUILD)/sinew demo --out demo-out

.PHONY: test
test: ## install what is missing, build, run all tests (T=name: those whose executable matches)
	@scripts/setup.sh build test
	@$(MAKE) --no-print-directory all
	@$(COMPILE) --target tests
	@scripts/run_tests.sh -b $(BUILD) $(T)

.PHONY: check-long
check-long: ## the checks that take minutes to hours
	@scripts/setup.sh build test long
	@$(MAKE) --no-print-directory all
	@$(COMPILE) --target long_tests
	@scripts/run_tests.sh -l -b $(BUILD) $(T)

.PHONY: check-gpu
check-gpu: ## the tests on the GPU of this machine (T=memory, goldens, edges, borders, drawn or pipeline alone)
	@scripts/setup.sh build test
	@$(MAKE) --no-print-directory all
	@$(COMPILE) --target tests long_tests
	@scripts/check_gpu.sh $(BUILD) $(T)

.PHONY: lint
lint: all ## layout, include rules, names, sizes
	@scripts/lint.sh $(BUILD)

.PHONY: format
format: ## lay out all C sources
	@scripts/format.sh

.PHONY: fuzz
fuzz: ## run each fuzzer for FUZZ_SECONDS
	@scripts/setup.sh build fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(T)

.PHONY: coverage
coverage: ## run the tests instrumented; lines covered, by file
	@scripts/setup.sh build test
	@scripts/coverage.sh

# Not in the help until the command has it.
.PHONY: bench
bench: all
	@$(abspath $(BUILD))/sinew bench

.PHONY: install
install: all ## install into PREFIX
	@cmake --install $(BUILD) --prefix $(PREFIX)

.PHONY: clean
clean: ## remove what building and testing left behind
	@rm -rf $(BUILD) build-* demo-out

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
