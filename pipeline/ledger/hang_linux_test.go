package ledger

import (
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"

	"amplifier-agent/pipeline"
)

// TestDiskHangs: what never comes back from a write holds up neither turns nor the end of the program.
func TestDiskHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := syscall.Mkfifo(path, 0o600); err != nil { // it takes 64 KiB, and then hangs like a disk that is gone
		t.Fatal(err)
	}
	l, err := Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	fill := make([]byte, 1<<20)
	go func() { _, _ = l.file.Write(fill) }() // until the file is closed below
	for range 3 {
		l.Record(&pipeline.Turn{ID: "t"}, pipeline.Outcome{Status: pipeline.StatusDone})
	}
	if err := l.Close(); err == nil {
		t.Error("rows that were not written are not told of")
	}
	for range 2 * maxWaiting {
		select {
		case l.rows <- entry{row: []byte("\nx\n"), done: make(chan struct{})}:
		default:
		}
	}
	l.Record(&pipeline.Turn{ID: "t"}, pipeline.Outcome{Status: pipeline.StatusDone})
	if l.lost.Load() == 0 {
		t.Error("a row beyond those that may wait is not counted as lost")
	}
	// Let the writer go.
	r, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(r)
	go func() {
		buf := make([]byte, 1<<16)
		for {
			select {
			case <-l.gone:
				return
			default:
				_, _ = syscall.Read(r, buf)
			}
		}
	}()
	<-l.gone
}
