package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"amplifier-agent/pipeline/atomicfile"
	"amplifier-agent/pipeline/secret"
)

const (
	maxLogBytes  = 1 << 20 // it starts anew after that
	maxTailBytes = 4 << 10
)

// serverLog is what restarted servers print to, below a mark what the last one does.
type serverLog struct {
	file *os.File
	mark int64
}

func openLog(dir string) (*serverLog, error) {
	if err := atomicfile.Dir(dir, dirPerm); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "serve.log")
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		if err := os.Truncate(path, 0); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, filePerm)
	if err != nil {
		return nil, err
	}
	if err := closeToOthers(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &serverLog{f, info.Size()}, nil
}

// closeToOthers makes sure of a file's mode where files have one.
func closeToOthers(f *os.File) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	if err := f.Chmod(filePerm); err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != filePerm {
		err = fmt.Errorf("%s: mode is %#o although %#o was set", f.Name(), info.Mode().Perm(), filePerm)
	}
	return err
}

// tail is the end of what was printed since the log was opened, without the key: a server's banner has it.
func (l *serverLog) tail(key string) string {
	f, err := os.Open(l.file.Name())
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(l.mark, info.Size()-maxTailBytes)
	b := make([]byte, max(0, info.Size()-from))
	n, _ := f.ReadAt(b, from)
	text := string(b[:n])
	if from > l.mark { // amid a line
		_, text, _ = strings.Cut(text, "\n")
	}
	var mask secret.Mask
	mask.Add(key)
	return strings.TrimRight(mask.String(text), "\n")
}
