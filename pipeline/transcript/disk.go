package transcript

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/atomicfile"
)

const (
	folderPerm = 0o700
	filePerm   = 0o600

	maxTranscriptBytes = 256 << 20 // of a file that is written or loaded
	maxMetadataBytes   = 1 << 20
	maxKeyBytes        = 192 // of each part of a session's key: file systems allow 255

	// staleAfter is the age at which a temporary file is taken for one whose writer was killed.
	staleAfter = time.Minute
)

// The files of a session.
const (
	transcriptFile = "transcript.jsonl"
	metadataFile   = "metadata.json"
)

// Disk is the pipeline.Store below a home folder: home/state/workspaces/<workspace>/sessions/<session>/ holds transcript.jsonl, with
// one message a line, metadata.json, and a copy of each from before the last write with .backup behind its name. Folders have mode
// 0700, files 0600. Several processes may share a home: each file is always whole, and the last one to write it wins.
type Disk struct {
	home string
	log  *slog.Logger
}

var _ pipeline.Store = (*Disk)(nil)

// NewDisk returns a store below home. It touches nothing until something is stored.
func NewDisk(home string, log *slog.Logger) *Disk { return &Disk{home: home, log: log} }

// folder returns where the files of a session are. Keys are checked here again, whoever made them: no key leads out of home.
func (d *Disk) folder(k pipeline.SessionKey) (string, error) {
	for _, part := range []string{k.Workspace, k.Session} {
		if !isName(part) {
			return "", fmt.Errorf("session %.200q of workspace %.200q: use 1 to %d letters, digits, dots, dashes and underscores, not only dots",
				k.Session, k.Workspace, maxKeyBytes)
		}
	}
	return filepath.Join(d.home, "state", "workspaces", k.Workspace, "sessions", k.Session), nil
}

// isName reports whether s is harmless as the name of a folder.
func isName(s string) bool {
	return s != "" && len(s) <= maxKeyBytes && strings.Trim(s, ".") != "" && strings.IndexFunc(s, notInName) < 0
}

func notInName(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_')
}

// Exists reports whether a transcript is stored for k.
func (d *Disk) Exists(k pipeline.SessionKey) bool {
	dir, err := d.folder(k)
	if err != nil {
		return false
	}
	info, err := os.Stat(filepath.Join(dir, transcriptFile))
	return err == nil && info.Mode().IsRegular()
}

// Load returns what is stored for k, or pipeline.ErrNoSession. Raw of each message is its line: calls in it have the form of the
// store, everything else that of the client. Metadata that is missing or cannot be read leaves Mark empty.
func (d *Disk) Load(ctx context.Context, k pipeline.SessionKey) (t pipeline.Transcript, err error) {
	dir, err := d.folder(k)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return t, fmt.Errorf("load transcript: %w", err)
	}
	path := filepath.Join(dir, transcriptFile)
	data, err := read(path, maxTranscriptBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return t, pipeline.ErrNoSession
	}
	if err != nil {
		return t, fmt.Errorf("load transcript: %w", err)
	}
	messages, bad := readTranscript(data)
	if bad != nil {
		return t, fmt.Errorf("load transcript: %s line %d (mend or remove it; %s is the version before): %w",
			path, bad.line, atomicfile.Backup(path), bad.err)
	}
	return pipeline.Transcript{Messages: messages, Mark: d.mark(dir)}, nil
}

// read returns a file's content.
func read(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: %d bytes are more than the limit of %d: %w", path, info.Size(), limit, codec.ErrTooLarge)
	}
	return os.ReadFile(path)
}

func (d *Disk) mark(dir string) pipeline.Mark {
	path := filepath.Join(dir, metadataFile)
	data, err := read(path, maxMetadataBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var m struct {
		LastTurn pipeline.Mark `json:"last_turn"`
	}
	if err == nil {
		err = codec.Unmarshal(data, &m)
	}
	if err != nil {
		d.log.Warn("metadata of a session cannot be read", "path", path, "err", err)
	}
	return m.LastTurn
}

// Replace stores t for k. A cancelled ctx keeps it from beginning; once begun it goes through. If it returns an error each file
// holds its old content or its new.
func (d *Disk) Replace(ctx context.Context, k pipeline.SessionKey, t pipeline.Transcript) error {
	if err := d.replace(ctx, k, t); err != nil {
		return fmt.Errorf("store transcript: %w", err)
	}
	return nil
}

func (d *Disk) replace(ctx context.Context, k pipeline.SessionKey, t pipeline.Transcript) error {
	dir, err := d.folder(k)
	if err != nil {
		return err
	}
	data := appendTranscript(nil, t.Messages)
	if len(data) > maxTranscriptBytes {
		return fmt.Errorf("%d bytes are more than the limit of %d: %w", len(data), maxTranscriptBytes, codec.ErrTooLarge)
	}
	if err = context.Cause(ctx); err != nil {
		return err
	}
	if err = atomicfile.Dir(dir, folderPerm); err != nil {
		return err
	}
	if n, err := atomicfile.Sweep(dir, staleAfter); err != nil {
		d.log.Warn("what killed writers may have left stays", "folder", dir, "err", err)
	} else if n > 0 {
		d.log.Info("removed what killed writers left", "folder", dir, "files", n)
	}
	if err = atomicfile.Replace(filepath.Join(dir, transcriptFile), data, filePerm); err != nil || t.Mark == "" {
		return err
	}
	marker := append(codec.AppendString([]byte(`{"last_turn":`), string(t.Mark)), '}')
	return atomicfile.Replace(filepath.Join(dir, metadataFile), marker, filePerm)
}
