//go:build !linux && !darwin

package lifecycle

// inspect knows no more than whether a process exists.
func inspect(pid int) proc { return proc{exists: exists(pid)} }
