package recording

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/atomicfile"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

const (
	folderPerm = 0o700
	filePerm   = 0o600

	maxBodyBytes = 64 << 20 // of a body that are kept
	maxLineBytes = 16 << 20 // of a line of it
	// longLineBytes is from where on a line that repeats the request is not held until its end: it may be as long as that.
	longLineBytes = 64 << 10
	maxSlugBytes  = 60 // of a model's id in a name
)

// Folder takes recordings. It is safe for concurrent use, and several processes may use one folder.
type Folder struct {
	dir  string
	mask *secret.Mask
	log  *slog.Logger
	n    atomic.Uint64
}

// NewFolder makes the folder at dir if there is none. What mask knows never gets into a recording.
func NewFolder(dir string, mask *secret.Mask, log *slog.Logger) (*Folder, error) {
	if err := atomicfile.Dir(dir, folderPerm); err != nil {
		return nil, fmt.Errorf("recordings: %w", err)
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return nil, fmt.Errorf("recordings: %w", err)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return nil, fmt.Errorf("recordings: %w", err)
	}
	return &Folder{dir: dir, mask: mask, log: log}, nil
}

// Recorder records the exchanges of one provider.
func (f *Folder) Recorder(s Source) upstream.Recorder { return &recorder{f, s} }

type recorder struct {
	folder *Folder
	source Source
}

// Begin implements upstream.Recorder.
func (r *recorder) Begin(e *upstream.Exchange) upstream.Tape {
	f := r.folder
	t := &tape{folder: f, echo: e.Echo, name: f.name(e.Began, r.source.Provider, e.Call.Model), rec: Recording{
		SchemaVersion: schemaVersion, Source: r.source, Model: e.Call.Model, RecordedAt: e.Began.UTC(),
		Request: Request{
			Method: e.Call.Method, Path: f.mask.String(e.Call.Path), Header: f.kept(sent, field(e.Call.Header)), Body: f.redact(e.Call.Body),
		},
		Response: Response{Status: e.Status, Header: f.kept(received, e.Header)},
	}}
	t.rec.Response.Body = t.name + bodyExt(e.Status, t.rec.Response.Header["Content-Type"], e.Echo != nil)
	file, err := os.OpenFile(t.path(".part"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, filePerm)
	if err != nil {
		t.fail(err)
		return t
	}
	t.file, t.out = file, bufio.NewWriter(file)
	return t
}

// name is unlike that of any other recording, and sorts by time.
func (f *Folder) name(at time.Time, provider, model string) string {
	return fmt.Sprintf("%s-%s-%s-%d.%d", at.UTC().Format("20060102T150405.000"), slug(provider), slug(model), os.Getpid(), f.n.Add(1))
}

func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), maxSlugBytes)]
}

// bodyExt is how the name of a body's file ends. Gateways whose lines echo requests call their lines of JSON events.
func bodyExt(status int, contentType string, lines bool) string {
	switch {
	case status != 200:
		return ".txt"
	case lines:
		return ".ndjson"
	case strings.HasPrefix(contentType, "text/event-stream"):
		return ".sse"
	}
	return ".txt"
}

// sent and received are the fields of headers that are kept.
var (
	sent     = []string{"Content-Type", "User-Agent", "x-command-code-version", "x-cli-environment", "x-cmd-zdr", "anthropic-version", "anthropic-beta", "X-Initiator"}
	received = []string{"Content-Type", "Date", "Retry-After", "X-Request-Id", "Lb-Request-Id", "Request-Id", "Server", "Cf-Ray"}
)

func (f *Folder) kept(names []string, field func(string) string) map[string]string {
	h := map[string]string{}
	for _, name := range names {
		if v := field(name); v != "" {
			h[name] = f.mask.String(v)
		}
	}
	return h
}

func field(header [][2]string) func(string) string {
	return func(name string) string {
		for _, h := range header {
			if strings.EqualFold(h[0], name) {
				return h[1]
			}
		}
		return ""
	}
}

// tape is a recording that is being made.
type tape struct {
	folder *Folder
	echo   func([]byte) bool
	name   string
	rec    Recording
	file   *os.File // nil if nothing is recorded (any more)
	out    *bufio.Writer
	line   []byte // that has not ended yet, or its beginning
	kept   int    // bytes
	cut    bool   // a limit was reached

	asked   bool // whether the line repeats the request is known already
	passing bool // it does, and its rest is not needed
}

func (t *tape) path(suffix string) string { return filepath.Join(t.folder.dir, t.name+suffix) }

func (t *tape) body() string { return filepath.Join(t.folder.dir, t.rec.Response.Body) }

// fail gives the recording up: the exchange goes on.
func (t *tape) fail(err error) {
	t.folder.log.Warn("an exchange is not recorded", "error", err)
	if t.file != nil {
		_ = t.file.Close()
		_ = os.Remove(t.file.Name())
		_ = os.Remove(t.body()) // which nothing tells of
		t.file = nil
	}
}

// Write implements upstream.Tape. It keeps whole lines, as keys are found in whole lines only.
func (t *tape) Write(p []byte) (int, error) {
	n := len(p)
	for t.file != nil && !t.cut && len(p) > 0 {
		i := bytes.IndexByte(p, '\n') + 1
		ends := i > 0
		if !ends {
			i = len(p)
		}
		if !t.passing {
			t.line = append(t.line, p[:i]...)
		}
		if p = p[i:]; !t.asked && len(t.line) >= longLineBytes {
			t.asked, t.passing = true, t.echoes()
		}
		if ends {
			t.flush()
		}
		t.cut = t.cut || !t.passing && len(t.line) > maxLineBytes
	}
	return n, nil
}

// echoes reports whether the line repeats the request.
func (t *tape) echoes() bool { return t.echo != nil && t.echo(t.line) }

// flush keeps the line.
func (t *tape) flush() {
	line := t.line
	if t.passing || t.echoes() {
		line = []byte("{\"type\":\"start-step\"}\n")
	}
	if t.kept += len(line); t.kept > maxBodyBytes {
		t.cut = true
		return
	}
	if _, err := t.out.WriteString(t.folder.mask.String(string(line))); err != nil {
		t.fail(err)
	}
	t.line, t.asked, t.passing = t.line[:0], false, false
}

// Close implements upstream.Tape.
func (t *tape) Close(whole bool) {
	if t.file != nil && !t.cut && len(t.line) > 0 {
		t.flush()
	}
	if t.file == nil {
		return
	}
	t.rec.Response.Whole = whole && !t.cut
	if err := t.save(); err != nil {
		t.fail(err)
	}
}

// save puts the two files in their places, the one that tells of the recording last.
func (t *tape) save() error {
	if err := t.out.Flush(); err != nil {
		return err
	}
	if err := t.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(t.file.Name(), t.body()); err != nil {
		return err
	}
	b, err := codec.MarshalIndent(t.rec)
	if err != nil {
		return err
	}
	return atomicfile.Write(t.path(ext), append(b, '\n'), filePerm)
}
