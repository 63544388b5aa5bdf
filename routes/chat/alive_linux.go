package chat

import "golang.org/x/sys/unix"

// connected reports whether the peer of a socket still holds its side open, whatever is still to be read.
func connected(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err != nil || n == 0
}
