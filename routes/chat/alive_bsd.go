//go:build unix && !linux

package chat

import "syscall"

// connected reports whether the peer of a socket still holds its side open. It does not see that behind bytes that are still to
// be read.
func connected(fd int) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n > 0 || err == syscall.EAGAIN || err == syscall.EINTR
}
