//go:build unix

package lifecycle

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// exists reports whether there is a process, ours or another user's.
func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// graceful says that terminate lets a process end by itself.
const graceful = true

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// detach makes a command outlive the terminal and the session that it is started from.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
