# Everything here works with nothing but Go; lint fetches its tool through Go.
STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME   ?= 20s

.PHONY: build test race lint fuzz bench bench-report demo

build: ## the binary, in this folder
	go build -trimpath -o amplifier-agent ./cmd/amplifier-agent

test:
	go test ./...

race:
	go test -race ./...

lint:
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...

fuzz: ## each fuzz target for FUZZTIME
	.ci/fuzz $(FUZZTIME)

bench:
	go test -run '^$$' -bench . -benchmem ./...

demo: ## serve the built-in simulator and print a curl line
	go run ./cmd/amplifier-agent demo

bench-report: ## the table of a running server beside a relay, and its picture in bench/load.svg
	go run ./bench/load -svg bench/load.svg
