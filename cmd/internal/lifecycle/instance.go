package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// instance is a server that a state file tells of.
type instance struct {
	slot   slot
	first  bool // its file is serve.json
	state  State
	launch *Launch       // nil if there is none that fits
	err    *invalidError // the file says nothing of use
}

// look reads the files of a slot.
func look(sl slot) (*instance, error) {
	in := &instance{slot: sl, first: filepath.Base(sl.state) == "serve.json"}
	s, err := readState(sl.state)
	if err != nil {
		invalid, ok := errors.AsType[*invalidError](err)
		if !ok {
			return nil, err
		}
		in.err = invalid
	}
	in.state = s
	in.launch = readLaunch(sl.launch, s.PID)
	return in, nil
}

// find lists what a home knows of: serve.json first, then by port.
func find(home string) (list []*instance, err error) {
	dir := stateDir(home)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read state: %w", err)
	}
	slots := []slot{defaultSlot(dir)}
	var ports []int
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), "serve-"); ok {
			if n, ok = strings.CutSuffix(n, ".json"); ok {
				if port, err := strconv.Atoi(n); err == nil {
					ports = append(ports, port)
				}
			}
		}
	}
	slices.Sort(ports)
	for _, port := range ports {
		slots = append(slots, portSlot(dir, port))
	}
	for _, sl := range slots {
		in, err := look(sl)
		if errors.Is(err, fs.ErrNotExist) {
			continue // or gone since
		}
		if err != nil {
			return nil, err
		}
		list = append(list, in)
	}
	return list, nil
}

// choose picks the server that a command is about: the one on port, else serve.json's, else the only one. None is nil.
func choose(list []*instance, port int) (*instance, error) {
	var invalid error
	for _, in := range list {
		if in.err != nil {
			invalid = cmp.Or(invalid, error(in.err))
		} else if port == in.state.Port || port == 0 && in.first {
			return in, nil
		}
	}
	switch {
	case invalid != nil: // it may be the one that is meant
		return nil, invalid
	case port != 0 || len(list) == 0:
		return nil, nil
	case len(list) == 1:
		return list[0], nil
	}
	ports := make([]string, len(list))
	for i, in := range list {
		ports[i] = strconv.Itoa(in.state.Port)
	}
	return nil, fmt.Errorf("several servers run: choose one with --port: %s", strings.Join(ports, ", "))
}

// alive reports whether the process that wrote the file is there.
func (in *instance) alive() bool {
	return in.state.PID > 0 && inspect(in.state.PID).is(in.state, in.launch)
}

// stale reports whether the file outlived its server.
func (in *instance) stale() bool { return in.err == nil && !in.alive() }

// clean removes the files of an instance that has ended, unless another server has taken their place.
func (in *instance) clean() error {
	unlock, err := lock(filepath.Dir(in.slot.state))
	if err != nil {
		return fmt.Errorf("clean stale state: %w", err)
	}
	defer unlock()
	// The same PID may be that of a server which is just starting: a container's have the same ones at each start.
	if now, err := look(in.slot); err == nil && now.alive() {
		return nil
	}
	if err := in.slot.remove(in.state.PID); err != nil {
		return fmt.Errorf("clean stale state: %w", err)
	}
	return nil
}

// keep makes sure that the files of an instance that has ended are there, unless another server has taken their place. One that ends
// well removes them itself.
func (in *instance) keep() error {
	unlock, err := lock(filepath.Dir(in.slot.state))
	if err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	defer unlock()
	if _, err = look(in.slot); errors.Is(err, fs.ErrNotExist) {
		err = in.slot.write(in.state, in.launch)
	}
	if err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	return nil
}

// Patience with a server that is to end.
const (
	stopPoll     = 100 * time.Millisecond
	killPatience = 2 * time.Second

	minPatience   = 5 * time.Second
	drainPatience = 2 * time.Second // beyond the drain, for the end of the answers that it cuts off
)

// patience is how long a server may take to end by itself: as long as it lets running answers, and somewhat longer.
func (in *instance) patience() time.Duration {
	if in.launch == nil {
		return minPatience
	}
	return max(minPatience, time.Duration(in.launch.DrainSeconds*float64(time.Second))+drainPatience)
}

// How an instance ended.
const (
	endedGone       = "" // it had by itself
	endedTerminated = "SIGTERM"
	endedKilled     = "SIGKILL"
)

// end ends the process: gently within timeout unless forced, then not. It touches no files.
func (in *instance) end(ctx context.Context, force bool, timeout time.Duration) (how string, err error) {
	// The handle comes before the look: on Linux it stays that of this process, whoever gets its PID.
	p, err := os.FindProcess(in.state.PID)
	if err != nil || !in.alive() {
		return endedGone, nil
	}
	defer func() { _ = p.Release() }()
	send := func(signal func(*os.Process) error) error {
		if err := signal(p); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop PID %d: %w", in.state.PID, err)
		}
		return nil
	}
	if graceful && !force {
		if err := send(terminate); err != nil {
			return "", err
		}
		if ended, err := in.wait(ctx, timeout); ended || err != nil {
			return endedTerminated, err
		}
	}
	if err := send((*os.Process).Kill); err != nil {
		return "", err
	}
	ended, err := in.wait(ctx, killPatience)
	if err == nil && !ended {
		err = fmt.Errorf("stop PID %d: it still runs %s after SIGKILL", in.state.PID, killPatience)
	}
	return endedKilled, err
}

// wait waits for the process to end, at most for d.
func (in *instance) wait(ctx context.Context, d time.Duration) (ended bool, err error) {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	poll := time.NewTicker(stopPoll)
	defer poll.Stop()
	for in.alive() {
		select {
		case <-poll.C:
		case <-deadline.C:
			return !in.alive(), nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return true, nil
}

// url is where this machine reaches a path of the server: one that listens on every address is asked over loopback.
func (s State) url(path string) string {
	host := s.Host
	switch ip := net.ParseIP(host); {
	case host == "" || ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(s.Port)), Path: path}).String()
}
