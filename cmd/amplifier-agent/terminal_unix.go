//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// silence makes a terminal not show what is typed, until restore is called. terminal is false, and restore does nothing, if f is none.
func silence(f *os.File) (restore func(), terminal bool) {
	fd := int(f.Fd())
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() {}, false
	}
	quiet := *old
	quiet.Lflag &^= unix.ECHO
	quiet.Lflag |= unix.ICANON | unix.ISIG
	if err := unix.IoctlSetTermios(fd, setTermios, &quiet); err != nil {
		return func() {}, false
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, old) }, true
}
