package lifecycle

import (
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	const tail = " S 1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 2"
	zombie := strings.Replace(tail, "S", "Z", 1)
	for _, row := range []struct {
		stat  string
		ended bool
		ticks int64
		ok    bool
	}{
		{"12 (server)" + tail, false, 4711, true},
		{"12 (a ) S 9 (b)" + zombie, true, 4711, true},
		{"12 (server)" + strings.Replace(zombie, "20 0 1 0", "20 0 3 0", 1), false, 4711, true},
		{"12 (server) S 1", false, 0, false},
		{"12 (server)" + strings.Replace(tail, "4711", "x", 1), false, 0, false},
		{"12 server", false, 0, false},
		{"", false, 0, false},
	} {
		if ended, ticks, ok := parseStat([]byte(row.stat)); ok != row.ok || ok && (ended != row.ended || ticks != row.ticks) {
			t.Errorf("%q: %v %d %v", row.stat, ended, ticks, ok)
		}
	}
}
