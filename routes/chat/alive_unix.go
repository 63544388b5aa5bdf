//go:build unix

package chat

import (
	"net"
	"syscall"
)

// alive returns a look at the client's socket: false once the client has closed its side or reset the connection. It reads nothing.
func alive(c net.Conn) func() bool {
	return func() bool { // few turns take long enough for a look
		sc, ok := c.(syscall.Conn)
		if !ok {
			return true
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			return false
		}
		there := true
		err = raw.Control(func(fd uintptr) { there = connected(int(fd)) })
		return there && err == nil
	}
}
