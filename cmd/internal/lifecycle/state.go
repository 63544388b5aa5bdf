package lifecycle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/atomicfile"
)

const (
	schemaVersion = 1
	filePerm      = 0o600
	dirPerm       = 0o700
	maxFileBytes  = 1 << 20

	// timeLayout is RFC 3339 in UTC with microseconds.
	timeLayout = "2006-01-02T15:04:05.000000Z"
)

// State is the content of a state file (http-face.md, "Serve state file"): exactly the contract's keys.
type State struct {
	PID              int            `json:"pid"`
	StartedAt        string         `json:"started_at"`
	Host             string         `json:"host"` // as bound; 0.0.0.0 and :: are possible
	Port             int            `json:"port"`
	APIKey           string         `json:"api_key"`
	Workspace        string         `json:"workspace"` // the resolved slug, also when it comes from the working directory
	HostConfigPath   *string        `json:"host_config_path"`
	ProvidersSummary map[string]int `json:"providers_summary"` // models by provider
	SchemaVersion    int            `json:"schema_version"`
}

// Launch is the content of a launch file: how to start the same server again. It holds no key, and none of Credentials' values.
//
// Which variables a server was set up with besides AMPLIFIER_AGENT_* is for the caller of Publish to say. Settings are put back with
// the values that they had, and unset if they were not set. Credentials are the caller's of a restart, who must have those that the
// server had. Any other variable is the caller's. A file of an earlier version has none of the two, nor a drain.
type Launch struct {
	SchemaVersion int               `json:"schema_version"`
	PID           int               `json:"pid"`
	Process       string            `json:"process,omitempty"` // tells the process from a later one with its PID; not on every system
	Face          string            `json:"face"`              // the subcommand of serve
	Executable    string            `json:"executable"`        // absolute
	Cwd           string            `json:"cwd"`               // absolute
	Bind          string            `json:"bind"`
	Port          int               `json:"port"`
	ModelID       string            `json:"model_id"`
	LogLevel      string            `json:"log_level"`
	Workspace     string            `json:"workspace"`
	Config        string            `json:"config"` // empty for none
	Demo          bool              `json:"demo"`
	Record        string            `json:"record,omitempty"` // folder, absolute
	DrainSeconds  float64           `json:"drain_seconds"`    // running answers may take as long to end
	Env           map[string]string `json:"env"`              // AMPLIFIER_AGENT_* of the server, without the key and the home, and Settings
	Settings      []string          `json:"settings,omitempty"`
	Credentials   []string          `json:"credentials,omitempty"` // to Publish those that there may be, in the file those that were set
}

// Names of the environment.
const (
	envPrefix = "AMPLIFIER_AGENT_"
	envHome   = "AMPLIFIER_AGENT_HOME"
	envKey    = "AMPLIFIER_AGENT_HTTP_API_KEY"
)

// recorded picks what Launch.Env holds from an environment. Two names travel otherwise: the key must not be written down twice, and
// the home is the one that the files lie in.
func (l *Launch) recorded(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && l.decides(name) && name != envKey && name != envHome {
			env[name] = value
		}
	}
	return env
}

// decides reports whether a variable is the server's, and not that of who restarts it.
func (l *Launch) decides(name string) bool {
	return strings.HasPrefix(name, envPrefix) || slices.Contains(l.Settings, name)
}

// lacking lists the credentials that an environment does not have. One that is empty is none.
func (l *Launch) lacking(environ []string) (names []string) {
	for _, name := range l.Credentials {
		if !slices.ContainsFunc(environ, func(entry string) bool {
			n, value, _ := strings.Cut(entry, "=")
			return n == name && value != ""
		}) {
			names = append(names, name)
		}
	}
	return names
}

// slot is a place for one server's files.
type slot struct {
	state, launch string // paths
}

// write writes the files, without a launch file if there is none. The lock must be held.
func (sl slot) write(s State, l *Launch) error {
	if l != nil {
		if err := write(sl.launch, l); err != nil {
			return err
		}
	}
	return write(sl.state, s)
}

func stateDir(home string) string { return filepath.Join(home, "state") }

func defaultSlot(dir string) slot {
	return slot{filepath.Join(dir, "serve.json"), filepath.Join(dir, "launch.json")}
}

func portSlot(dir string, port int) slot {
	n := strconv.Itoa(port)
	return slot{filepath.Join(dir, "serve-"+n+".json"), filepath.Join(dir, "launch-"+n+".json")}
}

// invalidError is a state file that says nothing of use.
type invalidError struct {
	path, reason string
}

func (e *invalidError) Error() string {
	return fmt.Sprintf("state file %s %s: remove it if no server of its runs", e.path, e.reason)
}

// readState reads a state file. Of one with another schema it returns what could be read: it may be that of a live server.
func readState(path string) (s State, err error) {
	if err := read(path, &s); err != nil {
		return State{}, err
	}
	if s.SchemaVersion != schemaVersion {
		return s, &invalidError{path, fmt.Sprintf("has schema_version %d, and this program knows %d only", s.SchemaVersion, schemaVersion)}
	}
	corrupt := ""
	switch _, err := time.Parse(time.RFC3339, s.StartedAt); {
	case s.PID < 1:
		corrupt = fmt.Sprintf("pid %d", s.PID) // as a target of a signal it would be more than one process
	case s.Port < 1 || s.Port > 65535:
		corrupt = fmt.Sprintf("port %d", s.Port)
	case err != nil:
		corrupt = fmt.Sprintf("started_at %q", s.StartedAt)
	}
	if corrupt != "" {
		return State{}, &invalidError{path, "is corrupt: " + corrupt}
	}
	return s, nil
}

// readLaunch reads the launch file of process pid. A server without one can still be stopped, so that any defect means none.
func readLaunch(path string, pid int) *Launch {
	var l Launch
	if err := read(path, &l); err != nil || l.SchemaVersion != schemaVersion || l.PID != pid {
		return nil
	}
	return &l
}

func read(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := codec.Read(f, maxFileBytes, v); err != nil {
		if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
			return fmt.Errorf("read state: %w", err)
		}
		return &invalidError{path, "is corrupt: " + err.Error()}
	}
	return nil
}

func write(path string, v any) error {
	data, err := codec.MarshalIndent(v)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'), filePerm)
}
