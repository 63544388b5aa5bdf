package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestBounds: each bound passes what is within it, and says what is beyond it and by how much. A run that did not work passes none.
func TestBounds(t *testing.T) {
	for _, b := range bounds() {
		if b.load.measure == 0 || b.load.name == "" {
			t.Fatalf("%s: no workload", b.what)
		}
		run := func(share float64) (server, relay *row) { // of the limit
			relay = &row{load: b.load, subject: "relay", tally: tally{deltas: 1e6}, took: time.Second, cpu: time.Second}
			server = &row{load: b.load, subject: "server", tally: tally{deltas: 1e6}, took: time.Second, cpu: time.Second}
			scale := share * b.most
			switch b.load.name {
			case "batched64":
				server.cpu = time.Duration(scale * float64(time.Second))
			case "paced1k":
				server.held = int64(scale * 1024 * float64(b.load.streams))
			case "large":
				server.took = time.Duration(scale * float64(time.Second))
			}
			return server, relay
		}
		if err := b.fault(run(0.99)); err != nil {
			t.Error(err)
		}
		if err := b.fault(run(1.25)); err == nil || !strings.Contains(err.Error(), "25 % beyond the limit") {
			t.Errorf("%s: %v", b.load.name, err)
		}
		server, relay := run(0.5)
		relay.failures, relay.failure = 1, errors.New("no connection")
		if err := b.fault(server, relay); !errors.Is(err, relay.failure) {
			t.Errorf("%s: %v", b.load.name, err)
		}
		server, relay = run(0.5)
		server.tally = tally{}
		if err := b.fault(server, relay); err == nil {
			t.Errorf("%s: a server that answered nothing passes", b.load.name)
		}
	}
}
