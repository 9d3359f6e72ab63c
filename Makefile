# One command per task; `make` alone lists them. Needs Go and nothing prepared:
# database servers and the linter are brought by the targets themselves.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Narrow a run: make test PKG=./lease/... ARGS='-run Hold -v'
PKG  ?=
ARGS ?=

GO      ?= go
TIMEOUT ?= 20m

# The modules that go.work joins, and the others (test-only ones whose
# dependencies must not reach the main module's go.mod). A module is found by its
# go.mod, so that none is forgotten.
WORKSPACE  = $(shell $(GO) list -m -f '{{.Dir}}')
APART      = $(filter-out $(WORKSPACE),$(abspath $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/testdata/*' -not -path './.*'))))
EVERYWHERE = $(addsuffix /...,$(WORKSPACE))

# Of the modules apart these use C (PostgreSQL's own parser, mattn's SQLite); nothing
# else here does.
USING_C = $(filter %/sqlgen/oracle %/driver/internal/parents,$(APART))
PURE_GO = $(filter-out $(USING_C),$(APART))
CC_FOUND = $(shell command -v $(firstword $(shell $(GO) env CC)))

# Where concurrency matters.
RACY = ./guard/... ./driver/... ./lease/... ./sqlgen/... ./internal/testserver/...

# Runs a command with a server of every engine, or with those that the environment names.
SERVERS = $(GO) run ./internal/cmd/testrun

TOOLS                 := $(CURDIR)/.cache/bin
GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT         := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
STATICCHECK           := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Narrow test and test-race: PKG=./lease/... ARGS='-run Hold -v'"
	@echo "  Servers of your own:       SQLFENCE_TEST_POSTGRES=postgres://superuser@host:5432/postgres[,…]"
	@echo "                             SQLFENCE_TEST_MYSQL='root@tcp(host:3306)/[,…]' (MariaDB or MySQL)"
	@echo "                             SQLFENCE_TEST_REDIS=redis://host:6379[,…]"
	@echo "  Programs to start instead: SQLFENCE_TEST_MYSQLD=/path/of/mysqld-or-mariadbd[,…], or scripts that exec one"
	@echo "  A PgBouncer of your own:   SQLFENCE_TEST_PGBOUNCER=/path/of/pgbouncer"

.PHONY: check
check: fmt lint vet test ## What a change must pass before it is sent

.PHONY: test
test: ## All tests of all modules on every engine; ends with the list of engines and versions tested
ifeq ($(strip $(PKG)),)
	@failed=0; notrun=""; \
	for module in $(USING_C); do \
		if [ -z '$(CC_FOUND)' ]; then notrun+=" $${module#$(CURDIR)/}"; continue; fi; \
		echo "testing $${module#$(CURDIR)/}, a module apart"; \
		GOWORK=off $(GO) -C "$$module" test -count=1 -timeout $(TIMEOUT) $(ARGS) ./... || failed=1; \
	done; \
	$(SERVERS) -all -- bash -c 'failed=0; \
		$(GO) test -count=1 -timeout $(TIMEOUT) $(ARGS) $(EVERYWHERE) || failed=1; \
		for module in $(PURE_GO); do \
			CGO_ENABLED=0 GOWORK=off $(GO) -C "$$module" test -count=1 -timeout $(TIMEOUT) $(ARGS) ./... || failed=1; \
		done; \
		exit $$failed' || failed=1; \
	if [ -n "$$notrun" ]; then \
		echo "WARNING: not tested for want of a C compiler:$$notrun"; \
		if [ -n "$${CI:-}" ]; then failed=1; fi; \
	fi; \
	exit $$failed
else
	$(SERVERS) -- $(GO) test -count=1 -timeout $(TIMEOUT) $(ARGS) $(PKG)
endif

# What depends on the version of PostgreSQL.
VERSIONED = ./guard/... ./internal/twin/... ./internal/fencetest/... ./driver/postgres/... ./lease/postgres/...

.PHONY: test-majors
test-majors: ## What depends on PostgreSQL's version, on every supported major (MAJORS="13 14": on these)
	SQLFENCE_TEST_POSTGRES_MAJORS='$(or $(MAJORS),all)' $(SERVERS) -- $(GO) test -count=1 -timeout 40m $(ARGS) $(or $(strip $(PKG)),$(VERSIONED))

# What depends on the version of MariaDB or MySQL.
MYSQL_VERSIONED = ./guard/... ./internal/twin/... ./internal/fencetest/... ./driver/mysql/... ./lease/mysql/...

.PHONY: test-mysql
test-mysql: ## What depends on MariaDB's or MySQL's version, on each program that SQLFENCE_TEST_MYSQLD names
	@if [ -z "$${SQLFENCE_TEST_MYSQLD:-}$${SQLFENCE_TEST_MYSQL:-}" ]; then \
		echo 'test-mysql: no version is named. Name server programs, SQLFENCE_TEST_MYSQLD=/path/of/mysqld-or-mariadbd[,…],' >&2; \
		echo "or running servers, SQLFENCE_TEST_MYSQL='root@tcp(host:3306)/[,…]'; CONTRIBUTING.md says where programs can be had." >&2; \
		exit 2; \
	fi
	$(SERVERS) -- $(GO) test -count=1 -timeout 60m $(ARGS) $(or $(strip $(PKG)),$(MYSQL_VERSIONED))

.PHONY: test-race
test-race: ## The packages where concurrency matters, under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(SERVERS) -- $(GO) test -race -count=1 -timeout $(TIMEOUT) $(ARGS) $(or $(strip $(PKG)),$(RACY))

# Named, or beside the repository, or the few statements of the project's own.
CORPORA ?= $(or $(SQLFENCE_CORPORA),$(wildcard ../shared/corpora),sqlgen/oracle/testdata/corpora)

.PHONY: corpora
corpora: ## Prove sqlgen on a folder of statements, CORPORA=…: parsers, and replays on every engine (ARGS=-trees: no servers)
	@mkdir -p '$(TOOLS)'
	GOWORK=off $(GO) -C sqlgen/oracle build -o '$(TOOLS)/oracle' .
	@$(if $(findstring -trees,$(ARGS)),,$(SERVERS) --) '$(TOOLS)/oracle' $(ARGS) '$(abspath $(CORPORA))'

FUZZTIME ?= 2m

# Go's fuzzer minimizes each input that reaches something new for up to a minute, and
# stands still meanwhile; once is enough here. It fuzzes one target at a time, and
# writes what it finds into the package's testdata/fuzz.
.PHONY: fuzz
fuzz: ## Fuzz sqlgen, each target for FUZZTIME=2m (a C compiler is needed for PostgreSQL's parser)
	@failed=0; \
	for folder in sqlgen sqlgen/oracle; do \
		targets=$$(GOWORK=off $(GO) -C $$folder test -list '^Fuzz' . | grep '^Fuzz'); \
		for target in $$targets; do \
			echo "$$target, $(FUZZTIME)"; \
			GOWORK=off $(GO) -C $$folder test . -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $(ARGS) || failed=1; \
		done; \
	done; \
	exit $$failed

.PHONY: examples
examples: ## Run the examples as a user would; each fails if its story ends otherwise
	$(GO) run ./examples/quickstart
	$(SERVERS) -- bash -euc 'dsn=$${SQLFENCE_TEST_POSTGRES%%,*}; \
		$(GO) run ./examples/quickstart -dsn "$$dsn"; \
		$(GO) run ./examples/worker -dsn "$$dsn"'

.PHONY: bench
bench: ## Measure guarded writes against their peers; writes bench/RESULTS.md
	$(GO) run ./bench $(ARGS)

.PHONY: bench-leases
bench-leases: ## Measure leases against their peers (River, redislock, redsync); writes bench/LEASES.md
	GOWORK=off CGO_ENABLED=0 $(GO) -C bench/leases run . $(ARGS)

.PHONY: lint
lint: ## Linters and formatting, all modules (brings golangci-lint; falls back to staticcheck, loudly)
	@if [ -x '$(GOLANGCI_LINT)' ] || $(MAKE) --no-print-directory '$(GOLANGCI_LINT)'; then \
		failed=0; \
		for module in $(WORKSPACE); do \
			echo "golangci-lint in $$module"; \
			(cd "$$module" && '$(GOLANGCI_LINT)' run --config '$(CURDIR)/.golangci.yml' ./...) || failed=1; \
		done; \
		for module in $(APART); do \
			if [ -z '$(CC_FOUND)' ] && [[ ' $(USING_C) ' == *" $$module "* ]]; then continue; fi; \
			echo "golangci-lint in $$module"; \
			(cd "$$module" && GOWORK=off '$(GOLANGCI_LINT)' run --config '$(CURDIR)/.golangci.yml' ./...) || failed=1; \
		done; \
		exit $$failed; \
	else \
		echo "WARNING: golangci-lint could not be had; checking with gofmt, vet and staticcheck only"; \
		unformatted=$$(gofmt -l .); \
		if [ -n "$$unformatted" ]; then echo "not formatted:"; echo "$$unformatted"; exit 1; fi; \
		$(GO) vet $(EVERYWHERE); \
		$(GO) run $(STATICCHECK) -checks inherit,-SA1019,-SA4000 $(EVERYWHERE); \
	fi

# Built in a folder of its own, since `go install` cannot name its result.
$(GOLANGCI_LINT):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION); this takes some minutes, once"
	@mkdir -p '$(TOOLS)/building'
	GOBIN='$(TOOLS)/building' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv '$(TOOLS)/building/golangci-lint' '$@'

.PHONY: vet
vet: ## go vet and build, all modules
	$(GO) build $(EVERYWHERE)
	$(GO) vet $(EVERYWHERE)
	@for module in $(USING_C); do (set -x; GOWORK=off $(GO) -C "$$module" vet ./...); done
	@for module in $(PURE_GO); do (set -x; CGO_ENABLED=0 GOWORK=off $(GO) -C "$$module" vet ./...); done

.PHONY: fmt
fmt: ## Format all Go files
	gofmt -w .

.PHONY: tidy
tidy: ## Bring go.mod and go.sum of all modules in order
	@for module in $(WORKSPACE) $(APART); do (set -x; GOWORK=off $(GO) -C "$$module" mod tidy); done

.PHONY: tidy-check
tidy-check: ## Fail if `make tidy` would change something
	@for module in $(WORKSPACE) $(APART); do (set -x; GOWORK=off $(GO) -C "$$module" mod tidy -diff); done

.PHONY: modules
modules: ## The folders of all modules that the targets go through
	@printf '%s\n' $(WORKSPACE) $(APART)

.PHONY: ci
ci: ## What continuous integration runs: everything
	bash .ci/run

.PHONY: clean
clean: ## Remove what the targets have built here
	rm -rf .cache bin
