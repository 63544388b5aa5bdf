package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

	lookBack   = 4 << 10                // bytes of other processes' rows that may have come behind one
	maxWaiting = 1024                   // rows that wait for a slow disk; those beyond are lost
	usualRow   = 640                    // bytes of most rows
	maxBatch   = 64                     // rows that are written in one piece
	patience   = 250 * time.Millisecond // of a turn with a disk that hangs
	closing    = time.Second            // for what waits when the ledger is closed
	lookEvery  = 100 * time.Millisecond // whether the file is still where it belongs
)

// Ledger appends rows to one file. It is safe for concurrent use, and several processes may append to one file. A goroutine of its
// own writes, so that a disk that hangs holds nobody up for longer than patience.
type Ledger struct {
	path string
	log  *slog.Logger
	max  int64
	look time.Duration // lookEvery
	now  func() time.Time

	rows chan *entry
	quit chan struct{} // closed by Close
	gone chan struct{} // closed when the writer has ended
	once sync.Once
	lost atomic.Int64 // rows since the last warning

	// Of the goroutine that writes:
	file   *os.File    // nil if it could not be opened
	info   fs.FileInfo // of file
	looked time.Time   // when file was found at path
	end    int64       // of file, behind the row that was written last: nothing is torn there; 0 if that is not known
	tail   []byte      // room for the end of file
	warned time.Time
	result error // of closing the file
}

// entry is a row behind a line feed, and who waits for it.
type entry struct {
	row  []byte
	done chan struct{} // gets a token
	late *time.Timer
}

var entries = sync.Pool{New: func() any {
	return &entry{row: make([]byte, 0, usualRow), done: make(chan struct{}, 1), late: time.NewTimer(patience)}
}}

// Open opens the ledger at path, and makes it with mode 0600 in a folder with mode 0700 if there is none.
func Open(path string, log *slog.Logger) (*Ledger, error) {
	l := &Ledger{path: path, log: log, max: maxFileBytes, look: lookEvery, now: time.Now,
		rows: make(chan *entry, maxWaiting), quit: make(chan struct{}), gone: make(chan struct{})}
	if err := l.reopen(); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	go l.write()
	return l, nil
}

// Record appends the row of a turn that is over (cases B020, B054, B059, B060): its usage and cost are those known by then, ts is
// when it was received. When it returns the row has been written, unless the disk is slow. It fails no turn: a row that cannot be
// written is lost and logged, at most once a minute.
func (l *Ledger) Record(t *pipeline.Turn, o pipeline.Outcome) {
	select {
	case <-l.gone:
		l.lost.Add(1)
		return
	default:
	}
	e := entries.Get().(*entry)
	e.row = appendRow(append(e.row[:0], '\n'), t, o)
	e.late.Reset(patience)
	select {
	case l.rows <- e:
	default: // the disk hangs, and has for a while
		l.lost.Add(1)
		return
	}
	select {
	case <-e.done:
		e.late.Stop()
		entries.Put(e)
	case <-l.gone:
	case <-e.late.C: // the writer may still come to it
	}
}

// Close writes what waits, if that does not take long, and closes the file. What is recorded later is lost. Further calls do nothing
// but wait.
func (l *Ledger) Close() error {
	l.once.Do(func() { close(l.quit) })
	late := time.NewTimer(closing)
	defer late.Stop()
	select {
	case <-l.gone:
		return l.result
	case <-late.C:
		return fmt.Errorf("close ledger %s: rows could not be written within %s", l.path, closing)
	}
}

// write is the goroutine that owns the file. Rows that have gathered meanwhile are written in one piece.
func (l *Ledger) write() {
	defer close(l.gone)
	var batch []*entry
	for {
		select {
		case e := <-l.rows:
			batch = l.gather(append(batch[:0], e))
			l.put(batch)
		case <-l.quit:
			for batch = l.gather(batch[:0]); len(batch) > 0; batch = l.gather(batch[:0]) {
				l.put(batch)
			}
			l.result = l.closeFile()
			return
		}
	}
}

// gather takes what waits.
func (l *Ledger) gather(batch []*entry) []*entry {
	for len(batch) < maxBatch {
		select {
		case e := <-l.rows:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

func (l *Ledger) put(batch []*entry) {
	rows, first := batch[0].row, len(batch[0].row)
	for _, e := range batch[1:] {
		rows = append(rows, e.row[1:]...) // the row before it ends in a line feed
	}
	if err := l.append(rows, first); err != nil {
		l.lost.Add(int64(len(batch)))
		l.warn("rows of the ledger are lost: check its folder and its disk", err)
	}
	for i, e := range batch {
		e.done <- struct{}{}
		batch[i] = nil
	}
}

func (l *Ledger) closeFile() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file, l.info = nil, nil
	return f.Close()
}

// append writes rows, of which the first is as long as first says. The line feed ahead of it closes one that is torn, and is left out
// if there is none.
func (l *Ledger) append(row []byte, first int) error {
	size, err := l.current()
	if err == nil && size > 0 && size+int64(len(row)) > l.max {
		if err := l.rotate(int64(len(row))); err != nil {
			l.warn("the ledger grows beyond its limit: it cannot be moved aside", err)
		}
		l.looked = time.Time{} // another process may have moved it
		size, err = l.current()
	}
	if err != nil {
		return err
	}
	plain := row[1:]
	if size != l.end {
		if torn, err := l.torn(size); err != nil {
			return err
		} else if torn {
			plain = row
		}
	}
	l.end = 0
	if _, err = l.file.Write(plain); err != nil {
		return err
	}
	end, err := l.size()
	if err != nil || !l.info.Mode().IsRegular() {
		return nil
	}
	if end == size+int64(len(plain)) { // nobody else has written meanwhile
		l.end = end
	} else if l.glued(row[1:], end) { // the others stand behind a line feed
		_, err = l.file.Write(row[:first])
	}
	return err
}

// glued reports whether row, which was just written, stands behind one that another process has torn since the look at the end of
// the file, of which size bytes are known. What is torn then takes it along, and it must be written again.
func (l *Ledger) glued(row []byte, size int64) bool {
	n := min(size, int64(len(row))+lookBack)
	l.tail = slices.Grow(l.tail[:0], int(n))[:n]
	if _, err := l.file.ReadAt(l.tail, size-n); err != nil {
		return false
	}
	i := bytes.LastIndex(l.tail, row)
	return i > 0 && l.tail[i-1] != '\n'
}

// current makes sure that l.file is the file at l.path, which others may have rotated or removed, and returns its size.
func (l *Ledger) current() (size int64, err error) {
	now := time.Now()
	if l.file != nil && now.Sub(l.looked) < l.look {
		return l.size()
	}
	info, err := os.Stat(l.path)
	if l.file != nil && err == nil && os.SameFile(info, l.info) {
		l.looked = now
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

// size is that of the open file, 0 if it is no regular one.
func (l *Ledger) size() (int64, error) {
	if !l.info.Mode().IsRegular() {
		return 0, nil
	}
	return l.file.Seek(0, io.SeekEnd)
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
	l.file, l.info, l.looked, l.end = f, info, time.Now(), 0
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
		l.log.Warn(what, "path", l.path, "lost", l.lost.Swap(0), "err", err)
		l.warned = now
	}
}
