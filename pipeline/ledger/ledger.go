package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/atomicfile"
)

const (
	folderPerm = 0o700
	filePerm   = 0o600

	maxFileBytes = 64 << 20    // before the file is rotated
	warnEvery    = time.Minute // at most, however many rows cannot be written
)

// Ledger appends rows to one file. It is safe for concurrent use, and several processes may append to one file.
type Ledger struct {
	path string
	log  *slog.Logger
	max  int64
	now  func() time.Time

	mu     sync.Mutex
	file   *os.File    // nil if it could not be opened
	info   fs.FileInfo // of file
	row    []byte
	closed bool
	lost   int // rows since the last warning
	warned time.Time
}

// Open opens the ledger at path, and makes it with mode 0600 in a folder with mode 0700 if there is none.
func Open(path string, log *slog.Logger) (*Ledger, error) {
	l := &Ledger{path: path, log: log, max: maxFileBytes, now: time.Now}
	if err := l.reopen(); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return l, nil
}

// Record appends the row of a turn that is over (cases B020, B054, B059, B060): its usage and cost are those known by then, ts is
// when it was received. It fails no turn: a row that cannot be written is lost and logged, at most once a minute.
func (l *Ledger) Record(t *pipeline.Turn, o pipeline.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(t, o); err != nil {
		l.lost++
		l.warn("rows of the ledger are lost: check its folder and its disk", err)
	}
}

// Close closes the file. What is recorded later is lost. Further calls do nothing.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.closeFile()
}

func (l *Ledger) closeFile() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file, l.info = nil, nil
	return f.Close()
}

var errClosed = errors.New("the ledger is closed")

func (l *Ledger) append(t *pipeline.Turn, o pipeline.Outcome) error {
	if l.closed {
		return errClosed
	}
	// One byte is kept free ahead of the row, for the line feed that closes a torn one.
	l.row = appendRow(append(l.row[:0], '\n'), t, o)
	size, err := l.current()
	if err == nil && size > 0 && size+int64(len(l.row)) > l.max {
		if err := l.rotate(int64(len(l.row))); err != nil {
			l.warn("the ledger grows beyond its limit: it cannot be moved aside", err)
		}
		size, err = l.current()
	}
	if err != nil {
		return err
	}
	row := l.row
	if torn, err := l.torn(size); err != nil {
		return err
	} else if !torn {
		row = row[1:]
	}
	_, err = l.file.Write(row)
	return err
}

// current makes sure that l.file is the file at l.path, which others may have rotated or removed, and returns its size.
func (l *Ledger) current() (size int64, err error) {
	info, err := os.Stat(l.path)
	if l.file != nil && err == nil && os.SameFile(info, l.info) {
		return info.Size(), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err = l.reopen(); err != nil {
		return 0, err
	}
	return l.info.Size(), nil
}

func (l *Ledger) reopen() error {
	_ = l.closeFile()
	if err := atomicfile.Dir(filepath.Dir(l.path), folderPerm); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, filePerm)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != filePerm {
		err = f.Chmod(filePerm)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	l.file, l.info = f, info
	return nil
}

// torn reports whether the last row lacks its line feed. A writer that is in the middle of it right now looks the same: the line
// feed that it gets then makes a blank line.
func (l *Ledger) torn(size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	var last [1]byte
	if _, err := l.file.ReadAt(last[:], size-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// rotate moves the file aside unless another process has done so since it was looked at, or is at it: then the row goes where
// it would have gone. The lock keeps two from rotating one after the other, which would replace a full file by an empty one.
func (l *Ledger) rotate(more int64) error {
	lock := flock.New(l.path+".lock", flock.SetPermissions(filePerm))
	locked, err := lock.TryLock()
	if err != nil || !locked {
		return err
	}
	defer func() { _ = lock.Close() }()
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size()+more <= l.max {
		return nil
	}
	if err != nil {
		return err
	}
	_ = l.closeFile() // Windows moves no file that is open
	return os.Rename(l.path, Rotated(l.path))
}

// Rotated is where the rows before those in the ledger at path are.
func Rotated(path string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + ".1" + ext
}

// warn logs err unless something was logged within the last minute.
func (l *Ledger) warn(what string, err error) {
	if now := l.now(); l.warned.IsZero() || now.Sub(l.warned) >= warnEvery {
		l.log.Warn(what, "path", l.path, "lost", l.lost, "err", err)
		l.warned, l.lost = now, 0
	}
}
