//go:build unix && !linux

package chat

import (
	"net"
	"syscall"
)

// alive returns a look at the client's socket: false once the client has closed or reset the connection. It reads nothing, and sees nothing
// behind bytes that were sent after the request.
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
			var b [1]byte
			n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			there = n > 0 || err == syscall.EAGAIN || err == syscall.EINTR
		})
		return there && err == nil
	}
}
