package lifecycle

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB of sys/proc.h. A process becomes one only after its files and sockets are closed.
const zombie = 5

// inspect asks the kernel's process table. What that does not tell stays unknown.
func inspect(pid int) proc {
	p := proc{exists: exists(pid)}
	if !p.exists {
		return p
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return p
	}
	if info.Proc.P_stat == zombie {
		return proc{}
	}
	// The start is that of the clock at the time, in microseconds: no later process with this PID has the same, nor one of another boot.
	start := info.Proc.P_starttime
	p.id = fmt.Sprintf("%d.%06d", start.Sec, start.Usec)
	p.born = time.Unix(start.Unix())
	return p
}
