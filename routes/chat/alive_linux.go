package chat

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// alive returns a look at the client's socket: false once the client has closed its side or reset the connection, whatever is
// still to be read on it.
func alive(c net.Conn) func() bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return func() bool { return true }
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() bool { return false }
	}
	return func() bool {
		there := true
		err := raw.Control(func(fd uintptr) {
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
			n, err := unix.Poll(p, 0)
			there = err != nil || n == 0
		})
		return there && err == nil
	}
}
