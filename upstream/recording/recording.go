package recording

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"amplifier-agent/codec"
)

const (
	schemaVersion = 1
	ext           = ".json" // of the file that tells of a recording

	maxFileBytes = 64 << 20 // of the file that tells of a recording
)

// Source is whose exchanges are recorded.
type Source struct {
	Provider string `json:"provider"`          // its id
	Module   string `json:"module"`            // what it is
	Surface  string `json:"surface,omitempty"` // of a gateway that has several
}

// Recording is an exchange.
type Recording struct {
	SchemaVersion int `json:"schema_version"`
	Source
	Model      string    `json:"model"`
	RecordedAt time.Time `json:"recorded_at"`
	Request    Request   `json:"request"`
	Response   Response  `json:"response"`
}

// Request is a call without what is left out of it.
type Request struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Header map[string]string `json:"header"`
	Body   codec.RawMessage  `json:"body,omitempty"`
}

// Response is what was answered.
type Response struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`  // name of the file that holds it, in the same folder
	Whole  bool              `json:"whole"` // it was read to its end
}

// List returns the names of the recordings in files, in lexical order, which is that of their time.
func List(files fs.FS) ([]string, error) {
	all, err := fs.Glob(files, "*"+ext)
	if err != nil {
		return nil, fmt.Errorf("list recordings: %w", err)
	}
	for i, name := range all {
		all[i] = strings.TrimSuffix(name, ext)
	}
	slices.Sort(all)
	return all, nil
}

// Read returns a recording and its body, which the caller closes. The error is fs.ErrNotExist if there is none of that name.
func Read(files fs.FS, name string) (*Recording, io.ReadCloser, error) {
	f, err := files.Open(name + ext)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	r := new(Recording)
	if err := codec.Read(f, maxFileBytes, r); err != nil {
		return nil, nil, fmt.Errorf("read recording %s: %w", name, err)
	}
	if r.SchemaVersion != schemaVersion {
		return nil, nil, fmt.Errorf("read recording %s: schema_version %d is not known, only %d", name, r.SchemaVersion, schemaVersion)
	}
	if r.Response.Body != path.Base(r.Response.Body) {
		return nil, nil, fmt.Errorf("read recording %s: its body %q is not in the same folder", name, r.Response.Body)
	}
	body, err := files.Open(r.Response.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("read recording %s: %w", name, err)
	}
	return r, body, nil
}
