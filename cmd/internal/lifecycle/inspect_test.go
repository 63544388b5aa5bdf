//go:build linux || darwin

package lifecycle

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

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
	for end := time.Now().Add(testPatience); inspect(c.Process.Pid).exists; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a zombie counts as running")
		}
	}
	if !exists(c.Process.Pid) {
		t.Error("somebody has waited for it")
	}
}
