# Everything a person or a machine does with this repository. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
# How long `make fuzz` spends on each target.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := parse engines assembly bitcode checkpoints databases descriptions settings tokens

.PHONY: help
help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-8s %s\n", $$1, $$2 }'

.PHONY: setup
setup: ## install what the machine lacks
	@scripts/setup build

.PHONY: build
build: setup ## the tool, in target/release
	@$(CARGO) build --release --workspace --quiet
	@ln -sf crashproof-cc target/release/crashproof-c++

# Where `make install` puts the tool: bin, lib/crashproof and include/crashproof below it.
PREFIX ?= /usr/local

.PHONY: install
install: build ## the tool into PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/crashproof $(DESTDIR)$(PREFIX)/include/crashproof
	install -s target/release/crashproof target/release/crashproof-cc $(DESTDIR)$(PREFIX)/bin
	ln -sf crashproof-cc $(DESTDIR)$(PREFIX)/bin/crashproof-c++
	install -s target/release/libcrashproof_instrument.so target/release/libcrashproof_runtime.so target/release/crashproof-llvm \
	    $(DESTDIR)$(PREFIX)/lib/crashproof
	install -m 644 include/*.h $(DESTDIR)$(PREFIX)/include/crashproof
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	target/release/crashproof man --out $(DESTDIR)$(PREFIX)/share/man/man1
	target/release/crashproof completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/crashproof
	target/release/crashproof completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_crashproof
	target/release/crashproof completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/crashproof.fish

.PHONY: cluster
cluster: ## a Slurm cluster of this machine, for check --on slurm
	@scripts/cluster start

.PHONY: deb
deb: build ## a Debian package, in target/debian
	@command -v cargo-deb >/dev/null || $(CARGO) install --quiet --locked cargo-deb
	rm -rf target/package && $(MAKE) install DESTDIR=target/package PREFIX=/usr
	$(CARGO) deb --package crashproof --no-build --no-strip

.PHONY: demo
demo: build ## see the tool find a real bug
	@scripts/demo

# Formatting and lints first: they fail fastest.
.PHONY: test
test: setup lint ## everything that must pass before a commit
	@scripts/setup test
	$(CARGO) test --workspace
	@# The prover's other solver, in C++: two minutes to build the first time.
	$(CARGO) test --package crashproof-ordersat --package crashproof-prove --features cadical --test random --test agreement
	@# The runtime's own tests once more, under AddressSanitizer.
	scripts/asan-runtime
	@echo "make test: all passed"

.PHONY: lint
lint: setup ## formatting, clippy and documentation, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --document-private-items --quiet

.PHONY: soak
soak: setup ## random programs and damaged inputs through every engine and parser, overnight (SOAK_CASES=20000 ...)
	@scripts/setup test
	@CARGO="$(CARGO)" scripts/soak

.PHONY: corpus
corpus: setup ## litmus tests and structures with seeded bugs on every engine; the table of the book
	@scripts/setup test
	$(CARGO) test --package crashproof --release --test corpus -- --nocapture
	@# One at a time: the processor time of each is in the table.
	CRASHPROOF_CORPUS=corpus CRASHPROOF_CORPUS_BOOK=$(CURDIR)/docs/src/corpus.md CRASHPROOF_CORPUS_README=$(CURDIR)/README.md \
	    $(CARGO) test --package crashproof --release --test programs -- --test-threads 1 corpus/

.PHONY: mutate
mutate: setup ## every flush and fence of the corpus removed or weakened in turn: some engine must object
	@scripts/setup test
	CRASHPROOF_CORPUS=mutate $(CARGO) test --package crashproof --release --test programs -- corpus/

.PHONY: bench
bench: setup ## the figures the project promises, measured
	$(CARGO) bench --package crashproof --bench litmus
	$(CARGO) bench --package crashproof --bench check
	$(CARGO) bench --package crashproof --bench search
	$(CARGO) bench --package crashproof --bench schedules
	$(CARGO) bench --package crashproof --bench foreign
	$(CARGO) bench --package crashproof --bench lint
	$(CARGO) bench --package crashproof --bench suite

.PHONY: bench-prove
bench-prove: setup ## Table 1 of the SMT paper, measured beside its figures
	@# Solvers jump about in their clauses; the book says so, too.
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1 $(CARGO) bench --package crashproof-symbolic --bench table

.PHONY: docs
docs: ## the book, in target/book
	@command -v mdbook >/dev/null || $(CARGO) install --quiet --locked mdbook
	mdbook build docs

.PHONY: fuzz
fuzz: ## look for panics and disagreements (FUZZ_SECONDS=60 for each target)
	@scripts/setup build fuzz
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --quiet --locked cargo-fuzz
	@mkdir -p $(FUZZ_TARGETS:%=fuzz/corpus/%)
	@# No sanitizer: there is no unsafe code to watch, and a stable compiler suffices.
	@for target in $(FUZZ_TARGETS); do \
	    echo "fuzz: $$target for $(FUZZ_SECONDS) s"; \
	    case $$target in \
	        parse) seeds="litmus -dict=fuzz/litmus.dict";; \
	        engines) seeds=;; \
	        descriptions) seeds="$$(echo frameworks/*)";; \
	        settings) seeds="fuzz/seeds/settings fuzz/seeds/suppressions fuzz/seeds/baselines";; \
	        *) seeds=fuzz/seeds/$$target;; \
	    esac; \
	    $(CARGO) fuzz run --sanitizer none $$target fuzz/corpus/$$target -- $$seeds \
	        -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=20 -rss_limit_mb=2048 \
	        -print_final_stats=1 -verbosity=0; \
	done

.PHONY: bless
bless: setup ## accept what the tests print now as what they should print
	TRYCMD=overwrite SNAPSHOTS=overwrite $(CARGO) test --package crashproof --tests
	@git status --short

# Licenses, sources and build scripts are also checked by `make test`, without this tool, which takes minutes to build.
.PHONY: deny
deny: setup ## licenses, advisories and duplicate versions of dependencies
	@command -v cargo-deny >/dev/null || $(CARGO) install --quiet --locked cargo-deny
	$(CARGO) deny check licenses bans sources
	$(CARGO) deny check advisories

.PHONY: sbom
sbom: setup ## a list of everything the tool is made of (CycloneDX), in target/sbom
	@command -v cargo-cyclonedx >/dev/null || $(CARGO) install --quiet --locked cargo-cyclonedx
	@mkdir -p target/sbom
	$(CARGO) cyclonedx --quiet --manifest-path crates/crashproof/Cargo.toml --format json --override-filename crashproof.cdx
	@mv crates/crashproof/crashproof.cdx.json target/sbom/
	@# One file for each crate of the workspace; that of the tool names all that the others need.
	@rm -f crates/*/crashproof.cdx.json crates/user/*/crashproof.cdx.json
	@echo "target/sbom/crashproof.cdx.json"
