# Every target of daily work. Plain make; the rules are short, the work is in Scripts/.

ifndef SWIFT
SWIFT := $(or $(shell Scripts/find-swift),false)
endif
PREFIX ?= /usr/local
DESTDIR ?=
SECONDS ?= 60
ARGS ?=
SEED ?= 1
SEEDS ?= 1
STEPS ?= 600
# The Swift runtime is linked in, so that the programs run on machines without Swift.
RELEASE = -c release --static-swift-stdlib
PROGRAMS = cache-daemon cache-stats cache-bench
BUILT = .build/release

export SWIFT

.PHONY: run build test bench bench-engine bench-plot torture fuzz sim churn asan tsan memcheck soak hostile lint format
.PHONY: install deb clean help
.DEFAULT_GOAL := help

run: ## build, installing missing packages, and serve; options in ARGS, as in make run ARGS="--memory 1GiB"
	Scripts/install-dependencies build
	$(SWIFT) build $(RELEASE) --product cache-daemon
	exec $(BUILT)/cache-daemon $(ARGS)

build: ## compile the three programs in release mode into .build/release
	Scripts/install-dependencies build
	for program in $(PROGRAMS); do $(SWIFT) build $(RELEASE) --product $$program || exit 1; done

test: ## run every test, installing what they need; ends with their count
	Scripts/install-dependencies test
	Scripts/run-tests $(ARGS)

bench: build ## measure everything, in 20 minutes, beside memcached; options in ARGS, as in make bench ARGS=--short
	Scripts/install-dependencies test
	for program in engine-bench EmbeddedCache; do $(SWIFT) build $(RELEASE) --product $$program || exit 1; done
	Benchmarks/bench --json .build/bench.json --markdown .build/bench.md $(ARGS)

bench-engine: ## measure the engine inside a process, next to a locked dictionary and NSCache
	Scripts/install-dependencies build
	$(SWIFT) build $(RELEASE) --product engine-bench
	for rows in rows growth; do $(BUILT)/engine-bench $$rows || exit 1; done

bench-plot: ## plot what a get costs with ten thousand to ten million entries into docs/scaling.svg
	Scripts/install-dependencies build
	$(SWIFT) build $(RELEASE) --product engine-bench
	$(BUILT)/engine-bench scaling --json | Benchmarks/plot docs/scaling.svg

fuzz: ## feed arbitrary bytes to all decoders, each for SECONDS, as in make fuzz SECONDS=300
	Scripts/install-dependencies build
	Scripts/fuzz seconds $(SECONDS)

sim: ## run the daemon on a simulated disk, in one thread, as SEED, SEEDS and STEPS say: make sim SEED=7 SEEDS=1000
	Scripts/install-dependencies build
	Scripts/simulate $(SEED) $(SEEDS) $(STEPS) $(ARGS)

asan: ## run the tests under AddressSanitizer
	Scripts/install-dependencies test
	Scripts/sanitize address

tsan: ## run the tests under ThreadSanitizer
	Scripts/install-dependencies test
	Scripts/sanitize thread

memcheck: ## run the daemon under valgrind for a while
	Scripts/install-dependencies torture
	Scripts/sanitize memory

soak: build ## half an hour of load, hostile clients and accidents
	Scripts/install-dependencies test
	CACHE_DAEMON=$(CURDIR)/$(BUILT)/cache-daemon Tests/Conformance/run soak --seconds 1800 --limit 3000

hostile: build ## slow, silent and too many clients, with full numbers
	Scripts/install-dependencies test
	CACHE_DAEMON=$(CURDIR)/$(BUILT)/cache-daemon Tests/Conformance/run hostile --long

churn: build ## twenty minutes of values that come and go: the directory stays within disk.limit
	CACHE_DAEMON=$(CURDIR)/$(BUILT)/cache-daemon Tests/Conformance/run churn --long --limit 3000

torture: ## inject every fault of docs/RELIABILITY.md: an hour, as root; options in ARGS, as in ARGS=--short
	Scripts/install-dependencies torture
	for program in cache-daemon StoreDamage; do $(SWIFT) build $(RELEASE) --product $$program || exit 1; done
	$(SWIFT) build --product cache-daemon
	Tests/Torture/run $(ARGS)

lint: ## check layout, doc comments and script syntax
	Scripts/lint

format: ## lay out all Swift sources
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests Examples

install: build ## install programs, sample configuration and service unit below PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -d $(DESTDIR)$(PREFIX)/share/doc/cache-daemon
	for program in $(PROGRAMS); do install -m 755 -s $(BUILT)/$$program $(DESTDIR)$(PREFIX)/bin/ || exit 1; done
	install -m 644 config/cache-daemon.conf README.md CHANGELOG.md LICENSE docs/OPERATIONS.md \
		$(DESTDIR)$(PREFIX)/share/doc/cache-daemon/
	sed 's|/usr/bin/|$(PREFIX)/bin/|; s|/usr/share/|$(PREFIX)/share/|' systemd/cache-daemon.service \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/cache-daemon.service
	install -m 644 systemd/cache-daemon.socket $(DESTDIR)$(PREFIX)/lib/systemd/system/

deb: build ## build the Debian package into .build/
	Scripts/make-deb

clean: ## delete everything that was built
	rm -rf .build

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
