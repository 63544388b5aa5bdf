package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	clockTick = 10 * time.Millisecond // of the kernel's accounts
	patience  = 30 * time.Second      // for a process to begin or end
)

// process is one that this program has started.
type process struct {
	cmd    *exec.Cmd
	addr   string
	output bytes.Buffer
	gone   chan struct{} // closed once it has ended
	result error         // of which, then
}

// launch starts a program that listens on addr, and waits until it does.
func launch(addr string, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), addr: addr, gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.result = p.cmd.Wait()
		close(p.gone)
	}()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return p, nil
		}
		select {
		case <-p.gone:
			return nil, fmt.Errorf("%s ended: %w\n%s", name, p.result, p.output.String())
		default:
		}
		if time.Now().After(end) {
			p.stop()
			return nil, fmt.Errorf("%s does not listen on %s", name, addr)
		}
	}
}

// stop ends the process.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
}

// cpu is the processor time that a process has used, user and system.
func cpu(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name before it may hold anything
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, errors.New("/proc: not understood")
	}
	user, err := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * clockTick, errors.Join(err, err2)
}

// busy is the processor time that the machine has used, and its own.
func busy() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	ticks := 0
	for i, f := range strings.Fields(first) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name, idle, waiting for disks, guests, who are counted already
			continue
		}
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// memory is what a process holds of the machine's, in bytes.
func memory(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0, err
	}
	return kilobytes << 10, nil
}

// free is an address that nobody listens on.
func free() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String(), nil
}
