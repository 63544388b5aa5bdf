//go:build unix

package upstream

import "syscall"

// probe looks at a socket. It is made once for a connection, as it is used before each exchange but the first.
type probe struct {
	raw   syscall.RawConn
	look  func(fd uintptr)
	quiet bool // what the last look has found
}

// quiet reports whether c is open and has nothing to read. It reads nothing.
func (c *conn) quiet() bool {
	p := &c.probe
	if p.look == nil {
		sc, ok := c.Conn.(syscall.Conn)
		if !ok {
			return true
		}
		var err error
		if p.raw, err = sc.SyscallConn(); err != nil {
			return false
		}
		p.look = func(fd uintptr) {
			var b [1]byte
			_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			p.quiet = err == syscall.EAGAIN || err == syscall.EINTR
		}
	}
	p.quiet = false
	return p.raw.Control(p.look) == nil && p.quiet
}
