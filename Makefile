# make without a target lists the targets. None but model needs anything but Go and, at the
# first run, a network: internal/replset fetches the MongoDB server that tests and
# demo run against.

GO ?= go

# The newest release that builds with Go 1.26.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The modules beside the core's that are built on every change.
NESTED := bench integration/faults integration/browser metrics/prometheus metrics/otel metrics/check

# Whatever the caller's flags say, no target but tidy may write go.mod or go.sum.
export GOFLAGS := $(strip $(filter-out -mod=%,$(shell $(GO) env GOFLAGS)) -mod=readonly)

# The race detector needs a C compiler. Without one the tests run all the same, and say so.
RACE := $(if $(shell command -v $(firstword $(shell $(GO) env CC)) 2>/dev/null),-race)
$(if $(RACE),,$(warning no C compiler $(shell $(GO) env CC): tests run without the race detector))

# For race: what to repeat, and how often.
PKG   ?= ./...
RUN   ?= .
COUNT ?= 5

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## see waiters queue up on a replica set of three
	$(GO) run ./cmd/fairlock demo

.PHONY: test
test: ## run all tests, with the race detector, on real servers, and 2,000 schedules of the simulator
	$(GO) test $(RACE) -count=1 -timeout 20m ./...
	$(GO) test -count=1 -timeout 10m ./internal/simulate

.PHONY: race
race: ## repeat tests under the race detector: PKG=./queue RUN=TestX COUNT=20
	$(GO) test -race -count=$(COUNT) -run '$(RUN)' -timeout 60m $(PKG)

.PHONY: bench
bench: ## measure fairlock against the floor, at most 5 minutes: BENCHFLAGS="-only processes -sizes 2,8"
	cd bench && $(GO) run ./cmd/bench $(BENCHFLAGS)

.PHONY: bench-gateway
bench-gateway: ## measure hand-offs through the HTTP gateway with 2,000 clients in line, about 2 minutes: BENCHFLAGS="-waiters 200"
	cd bench && $(GO) run ./cmd/bench-gateway $(BENCHFLAGS)

.PHONY: bench-test
bench-test: ## test the harness of the benchmarks (the tests of other locks' servers: cd bench && go test ./peers/...)
	cd bench && $(GO) test -count=1 -timeout 10m . ./contend ./run ./stats ./report ./recipes ./fair ./gateway

.PHONY: bench-peers
bench-peers: ## measure fairlock beside other locks on their servers, about 25 minutes: BENCHFLAGS="-only redis,fairlock", -resume
	cd bench && $(GO) run ./peers/cmd/bench-peers $(BENCHFLAGS)

# For simulate: how many schedules, and the seed of the first.
N    ?= 100000
SEED ?= 1

.PHONY: simulate
simulate: ## run seeded schedules of faults on simulated servers: N=1000000 SEED=1
	$(GO) test ./internal/simulate -count=1 -timeout 0 -v -run '^TestSchedules$$' -args -n=$(N) -seed=$(SEED) -progress=10s

.PHONY: replay
replay: ## print what happens in one schedule: SEED=17, of old ones PLAIN=1
	$(GO) test ./internal/simulate -count=1 -timeout 0 -v -run '^TestReplay$$' -args -seed=$(SEED) $(if $(PLAIN),-plain)

.PHONY: faults
faults: ## break real servers and processes under load, once in each way, at most 20 minutes: ROW=kill-holder
	cd integration/faults && $(GO) test -p 1 -count=1 -timeout 40m -run '$(if $(ROW),TestRows/$(ROW)$$,.)' ./...

.PHONY: browser
browser: ## test the gateway's status page in Chromium, which apt-get fetches if need be
	cd integration/browser && $(GO) test -count=1 -timeout 10m ./...

.PHONY: metrics
metrics: ## test the adapters for Prometheus and OpenTelemetry, the dashboard and the alerts
	cd metrics/prometheus && $(GO) test $(RACE) -count=1 -timeout 10m ./...
	cd metrics/otel && $(GO) test $(RACE) -count=1 -timeout 10m ./...
	cd metrics/check && $(GO) test -count=1 -timeout 10m ./...

# For dashboard: the file to write.
OUT ?= /tmp/fairlock-dashboard.html

.PHONY: dashboard
dashboard: ## draw metrics/dashboard.json over a simulated load with faults, one page of HTML: OUT=page.html
	cd metrics/check && $(GO) test -count=1 -run '^TestPanelsShowSomething$$' . -args -out=$(abspath $(OUT))

# For metrics-cost: how many rounds, a multiple of 4.
ROUNDS ?= 120

.PHONY: metrics-cost
metrics-cost: ## measure what metrics cost, on a replica set and in memory, about 5 minutes: ROUNDS=40
	cd metrics/check && $(GO) test -run '^$$' -bench Cost -benchtime 1x -timeout 20m . -args -rounds=$(ROUNDS)

.PHONY: soak
soak: ## break them many times, with figures; goes on where it was ended: SOAKFLAGS="-runs 100 -length 60s -rows kill-holder"
	cd integration/faults && $(GO) run ./cmd/soak $(SOAKFLAGS)

.PHONY: mutants
mutants: ## plant faults in the code and see that a test catches each: MUTANTFLAGS="-run queue"
	$(GO) run ./internal/mutants/cmd/mutants $(MUTANTFLAGS)

# For fuzz: how long each target runs.
FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## feed random documents and names to all fuzz targets: FUZZTIME=1m
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done; \
	done

.PHONY: model
model: ## check the protocol's model with spin, which apt-get fetches if need be
	sh model/check.sh

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: lint
lint: vet ## gofmt, go vet and staticcheck, in all modules
	@files="$$(gofmt -l .)" || exit 1; \
	if [ -n "$$files" ]; then echo "gofmt -w is due for:"; echo "$$files"; exit 1; fi
	$(GO) run $(STATICCHECK) ./...
	@for m in $(NESTED); do echo "== $$m"; (cd $$m && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...) || exit 1; done

.PHONY: tidy
tidy: ## bring go.mod and go.sum in line with the imports
	$(GO) mod tidy

.PHONY: clean
clean: ## remove what builds, tests and benchmarks left here
	rm -rf bin dist .bench .faults integration/faults/.faults coverage.* *.test *.prof
