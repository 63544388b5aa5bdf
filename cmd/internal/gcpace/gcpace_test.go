package gcpace

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 4 << 20: 400, 8 << 20: 200, 16 << 20: 100, 1 << 30: 100, 1 << 62: 100} {
		if got := Percent(live); got != want {
			t.Errorf("%d bytes: %d %%, want %d", live, got, want)
		}
	}
}

// percent is the pace at this moment.
func percent() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}

// TestPace: a small heap is collected seldom, a large one as usual, and all is as before in the end. The process is one of its own, as
// there is one pace in each.
func TestPace(t *testing.T) {
	if os.Getenv("GCPACE_CHILD") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPace$")
		cmd.Env = append(os.Environ(), "GCPACE_CHILD=1", "GOGC=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	stop := Start()
	if got := percent(); got != 400 {
		t.Errorf("at first: %d", got)
	}
	heap := make([]byte, 64<<20)
	end := time.Now().Add(30 * time.Second)
	for percent() != 100 { // finalizers run some time after a collection
		if time.Now().After(end) {
			t.Fatalf("with a large heap: %d", percent())
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(heap)
	stop()
	if got := percent(); got != 100 {
		t.Errorf("in the end: %d", got)
	}
}

// TestOwnPace: whoever sets a pace gets it.
func TestOwnPace(t *testing.T) {
	was := percent()
	t.Setenv("GOGC", strconv.Itoa(was))
	Start()()
	if got := percent(); got != was {
		t.Errorf("%d, was %d", got, was)
	}
}
