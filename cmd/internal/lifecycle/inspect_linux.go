package lifecycle

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of times in /proc, the same on each system that Go runs on.
const ticksPerSecond = 100

// inspect asks /proc. What that does not tell (it hides other users' processes at times) stays unknown.
func inspect(pid int) proc {
	p := proc{exists: exists(pid)}
	if !p.exists {
		return p
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p
	}
	ended, ticks, ok := parseStat(stat)
	if ended {
		return proc{}
	}
	if !ok {
		return p
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		p.id = strings.TrimSpace(string(boot)) + ":" + strconv.FormatInt(ticks, 10)
	}
	if boot, ok := bootTime(); ok {
		p.born = boot.Add(time.Duration(ticks) * (time.Second / ticksPerSecond))
	}
	return p
}

// parseStat finds in /proc/<pid>/stat whether the process has ended and when it started, in ticks since the boot. The name before
// that is in parentheses and may hold anything, spaces and parentheses included.
func parseStat(stat []byte) (ended bool, ticks int64, ok bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return false, 0, false
	}
	const state, threads, start = 0, 17, 19 // fields, counted from behind the name
	fields := strings.Fields(string(stat[i+1:]))
	if len(fields) <= start {
		return false, 0, false
	}
	// A zombie with other threads is still on its way out: it has its port until the last one is gone.
	ended = (fields[state] == "Z" || fields[state] == "X") && (fields[threads] == "1" || fields[threads] == "0")
	ticks, err := strconv.ParseInt(fields[start], 10, 64)
	return ended, ticks, err == nil
}

func bootTime() (t time.Time, ok bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, false
	}
	for line := range strings.Lines(string(stat)) {
		if rest, found := strings.CutPrefix(line, "btime "); found {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return time.Unix(n, 0), err == nil
		}
	}
	return t, false
}
