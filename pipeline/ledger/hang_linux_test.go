package ledger

import (
	"errors"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"

	"amplifier-agent/pipeline"
)

// TestDiskHangs: what never comes back from a write holds up neither turns nor the end of the program.
func TestDiskHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	// A pipe that is full takes nothing more, like a disk that is gone.
	pipe, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pipe)
	buf := make([]byte, 4096)
	for err == nil {
		_, err = syscall.Write(pipe, buf)
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	done := pipeline.Outcome{Status: pipeline.StatusDone}
	for range 3 {
		l.Record(&pipeline.Turn{ID: "t"}, done)
	}
	if err := l.Close(); err == nil {
		t.Error("rows that were not written are not told of")
	}
	for len(l.rows) < cap(l.rows) {
		l.rows <- &entry{row: []byte("\nx\n"), done: make(chan struct{}, 1)}
	}
	l.Record(&pipeline.Turn{ID: "t"}, done)
	if l.lost.Load() == 0 {
		t.Error("a row beyond those that may wait is not counted as lost")
	}
	for { // let the writer go
		select {
		case <-l.gone:
			return
		default:
			_, _ = syscall.Read(pipe, buf)
		}
	}
}
