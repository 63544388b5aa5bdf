package lifecycle

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
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

func TestInspect(t *testing.T) {
	me := inspect(os.Getpid())
	if !me.exists || me.id == "" || me.born.IsZero() || me.born.After(time.Now().Add(slack)) || time.Since(me.born) > 24*time.Hour {
		t.Errorf("this process: %+v", me)
	}
	if again := inspect(os.Getpid()); again != me {
		t.Errorf("%+v, then %+v", me, again)
	}
	if p := inspect(deadPID(t)); p.exists {
		t.Errorf("a dead process: %+v", p)
	}
	// One that has ended and that nobody has waited for.
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "-test.run=^$")
	c.Env = append(os.Environ(), promptExit)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	_, _ = out.Read(make([]byte, 1))
	for end := time.Now().Add(testPatience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(c.Process.Pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		if ended, _, _ := parseStat(stat); ended {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the process does not end")
		}
	}
	if p := inspect(c.Process.Pid); p.exists {
		t.Errorf("a zombie: %+v", p)
	}
}
