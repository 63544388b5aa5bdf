package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pair of ends: the user's and the program's.
func terminal(t *testing.T) (user, inside *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { inside.Close() })
	return user, inside
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// TestAuthTerminal: what is typed at the question does not show, and does afterwards, also if the user gives up.
func TestAuthTerminal(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		user, inside := terminal(t)
		home := t.TempDir()
		c := program(t, []string{"AMPLIFIER_AGENT_HOME=" + home}, "auth", "set", "openai")
		c.Stdin, c.Stdout, c.Stderr = inside, inside, inside
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		screen := bufio.NewReader(user)
		shown, err := screen.ReadString(':')
		if err != nil || !strings.Contains(shown, "Key for openai:") {
			t.Fatalf("%q, %v", shown, err)
		}
		if echoes(t, inside) {
			t.Error("what is typed shows")
		}
		if interrupted {
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		} else if _, err := user.WriteString("sk-typed-0123456789\n"); err != nil {
			t.Fatal(err)
		}
		code := exitCode(c.Wait())
		if !echoes(t, inside) {
			t.Error("the terminal stays silent")
		}
		if _, err := inside.WriteString("END"); err != nil {
			t.Fatal(err)
		}
		rest, err := screen.ReadString('D')
		if err != nil || strings.Contains(rest, "sk-typed") {
			t.Errorf("the screen has %q, %v", rest, err)
		}
		b, err := os.ReadFile(filepath.Join(home, "credentials.json"))
		if interrupted != (code == exitFailure) || interrupted != os.IsNotExist(err) || !interrupted && !strings.Contains(string(b), `"sk-typed-0123456789"`) {
			t.Errorf("exit code %d, %v: %s", code, err, b)
		}
	}
}
