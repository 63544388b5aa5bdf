//go:build unix

package chat

import (
	"net"
	"syscall"
)

// alive returns a look at the client's socket: false once the client has closed its side or reset the connection. It reads nothing.
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
		err := raw.Control(func(fd uintptr) { there = connected(int(fd)) })
		return there && err == nil
	}
}
