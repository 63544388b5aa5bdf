package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"amplifier-agent/pipeline/atomicfile"
)

const (
	lockPatience = 5 * time.Second // it is held for a few writes only
	lockRetry    = 10 * time.Millisecond
	sweepAge     = time.Minute // of temporary files that nobody is writing any more
)

// Published is a server's pair of files. Its methods may be called at any time, also at once.
type Published struct {
	dir  string
	slot slot
	pid  int
}

// Publish writes the files of this process, which serves as s says and was started as l says. What both say of the process (PID,
// executable and so on), the values of its variables and what l repeats of s are filled in here; l needs Face, ModelID, LogLevel, Demo,
// Record, DrainSeconds, Settings and Credentials.
//
// The files are serve.json's, or those of the port if serve.json belongs to another server that is alive (rulings 6); a stale or
// corrupt file is replaced, a live server's never touched. Nothing is ever readable by others: any failure is an error.
func Publish(home string, s State, l Launch) (*Published, error) {
	p, err := publish(home, s, l)
	if err != nil {
		return nil, fmt.Errorf("publish server state: %w", elsewhere(home, err))
	}
	return p, nil
}

// elsewhere says what to do about a home that is not for writing, if that is what err is about.
func elsewhere(home string, err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("the home %s cannot be written to: set %s to a folder that can: %w", home, envHome, err)
	}
	return err
}

func publish(home string, s State, l Launch) (*Published, error) {
	if err := complete(&s, &l); err != nil {
		return nil, err
	}
	dir := stateDir(home)
	if err := atomicfile.Dir(dir, dirPerm); err != nil {
		return nil, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// A writer that was killed may have left a key behind.
	if _, err := atomicfile.Sweep(dir, sweepAge); err != nil {
		return nil, err
	}
	p := &Published{dir: dir, pid: s.PID}
	if p.slot, err = freeSlot(dir, s); err != nil {
		return nil, err
	}
	if err := p.slot.write(s, &l); err != nil {
		return nil, errors.Join(err, p.slot.remove(p.pid)) // a file may be there that is only not durable
	}
	return p, nil
}

// complete fills in what is known here.
func complete(s *State, l *Launch) (err error) {
	s.PID, s.SchemaVersion = os.Getpid(), schemaVersion
	s.StartedAt = time.Now().UTC().Format(timeLayout)
	if s.ProvidersSummary == nil {
		s.ProvidersSummary = map[string]int{}
	}
	if s.Port < 1 || s.Port > 65535 {
		return fmt.Errorf("port %d: it must be the one that is bound", s.Port)
	}
	l.PID, l.SchemaVersion, l.Process = s.PID, schemaVersion, inspect(s.PID).id
	l.Bind, l.Port, l.Workspace = s.Host, s.Port, s.Workspace
	if l.Config = ""; s.HostConfigPath != nil {
		l.Config = *s.HostConfigPath
	}
	environ := os.Environ()
	l.Env = l.recorded(environ)
	lacking := l.lacking(environ)
	l.Credentials = slices.DeleteFunc(slices.Clone(l.Credentials), func(name string) bool { return slices.Contains(lacking, name) })
	if l.Executable, err = os.Executable(); err != nil {
		return fmt.Errorf("own executable: %w", err)
	}
	if l.Cwd, err = os.Getwd(); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	return nil
}

// freeSlot finds the place for s. The lock must be held.
func freeSlot(dir string, s State) (slot, error) {
	var taken *instance
	for _, sl := range []slot{defaultSlot(dir), portSlot(dir, s.Port)} {
		in, err := look(sl)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return sl, nil
		case err != nil:
			return slot{}, err
		case in.state.PID == s.PID || !in.alive():
			return sl, nil
		}
		taken = in
	}
	return slot{}, fmt.Errorf("%s belongs to the running server with PID %d: give this one a home of its own with %s",
		taken.slot.state, taken.state.PID, envHome)
}

// Path is the path of the state file.
func (p *Published) Path() string { return p.slot.state }

// Remove removes the files if they still are this process's. It is no error if they are gone.
func (p *Published) Remove() error {
	unlock, err := lock(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // with the whole folder
	}
	if err != nil {
		return fmt.Errorf("remove server state: %w", err)
	}
	defer unlock()
	if err := p.slot.remove(p.pid); err != nil {
		return fmt.Errorf("remove server state: %w", err)
	}
	return nil
}

// remove removes the files of process pid, and no other's. The lock must be held.
func (sl slot) remove(pid int) error {
	s, err := readState(sl.state)
	if _, invalid := errors.AsType[*invalidError](err); invalid || errors.Is(err, fs.ErrNotExist) {
		err = nil // it cannot be this process's, or is gone
	}
	if s.PID == pid {
		err = remove(sl.state)
	}
	if readLaunch(sl.launch, pid) != nil {
		err = errors.Join(err, remove(sl.launch))
	}
	return err
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lock makes its holder the only one who decides on the files in dir.
func lock(dir string) (unlock func(), err error) {
	l := flock.New(filepath.Join(dir, "serve.lock"), flock.SetPermissions(filePerm))
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("lock %s: another process has held it for %s: end the amplifier-agent that hangs, and try again", l.Path(), lockPatience)
		}
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	}
	return func() { _ = l.Unlock() }, nil
}
