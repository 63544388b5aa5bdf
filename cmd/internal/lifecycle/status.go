package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"amplifier-agent/codec"
)

const (
	probeTimeout  = 2 * time.Second // for the whole answer
	maxModelBytes = 16 << 20
	noProvider    = "unknown" // of models whose entry names none
)

// StatusReport is what `serve status --json` prints.
type StatusReport struct {
	SchemaVersion int            `json:"schema_version"` // 1
	Running       bool           `json:"running"`        // a server is there, whether it responds or not
	Servers       []ServerStatus `json:"servers"`        // serve.json's first, then by port
	Error         string         `json:"error,omitempty"`
}

// ServerStatus is one server of a StatusReport. A field without a value is left out.
type ServerStatus struct {
	Status         string       `json:"status"` // running, not_responding, stale (and cleaned) or invalid
	File           string       `json:"file"`   // the state file
	PID            int          `json:"pid,omitempty"`
	Host           string       `json:"host,omitempty"`
	Port           int          `json:"port,omitempty"`
	URL            string       `json:"url,omitempty"` // as this machine reaches it
	Workspace      string       `json:"workspace,omitempty"`
	StartedAt      string       `json:"started_at,omitempty"`
	HostConfigPath *string      `json:"host_config_path,omitempty"`
	Models         *ModelCounts `json:"models,omitempty"`
	Error          string       `json:"error,omitempty"`
}

// ModelCounts is how many models a server serves.
type ModelCounts struct {
	Total      int            `json:"total"`
	ByProvider map[string]int `json:"by_provider"`
}

// Values of ServerStatus.Status.
const (
	statusRunning       = "running"
	statusNotResponding = "not_responding"
	statusStale         = "stale"
	statusInvalid       = "invalid"
)

// Status tells of every server of a home, or of the one on Options.Port, and cleans up after those that have ended. The exit code is 1
// if one runs but does not respond, or if a file is invalid. It never prints a key.
func Status(ctx context.Context, o Options) (int, error) {
	r := StatusReport{SchemaVersion: schemaVersion, Servers: []ServerStatus{}}
	code, err := o.status(ctx, &r)
	return o.finish(&r, &r.Error, code, err)
}

func (o Options) status(ctx context.Context, r *StatusReport) (code int, err error) {
	list, err := find(o.Home)
	if err != nil {
		return exitFailure, err
	}
	out := o.text(o.Stdout)
	var problems []error
	for _, in := range list {
		if o.Port != 0 && in.err == nil && in.state.Port != o.Port {
			continue
		}
		s, err := in.status(ctx)
		r.Servers = append(r.Servers, s)
		switch s.Status {
		case statusInvalid:
			problems = append(problems, err)
		case statusStale:
			if err != nil {
				problems = append(problems, err)
				continue
			}
			say(out, "stale state file (PID %d %s) — cleaned", s.PID, in.fate())
		case statusNotResponding:
			code, r.Running = exitFailure, true
			say(out, "running (PID %d) — but %s not responding: %s", s.PID, in.state.url(modelsPath), s.Error)
		default:
			r.Running = true
			say(out, "running at %s  (PID %d, workspace=%s)", s.URL, s.PID, s.Workspace)
			fmt.Fprintf(out, "  models: %d total\n  by provider:\n", s.Models.Total)
			for _, id := range slices.Sorted(maps.Keys(s.Models.ByProvider)) {
				fmt.Fprintf(out, "    %s: %d\n", id, s.Models.ByProvider[id])
			}
		}
	}
	if len(r.Servers) == 0 {
		say(out, "not running%s", o.where())
	}
	return code, errors.Join(problems...)
}

// Paths of the server.
const (
	basePath   = "/v1/"
	modelsPath = "/v1/models"
)

// status looks at one server. The error is that of its files.
func (in *instance) status(ctx context.Context) (ServerStatus, error) {
	r := ServerStatus{File: in.slot.state}
	if in.err != nil {
		r.Status, r.Error = statusInvalid, in.err.Error()
		return r, in.err
	}
	s := in.state
	r.PID, r.Host, r.Port, r.URL = s.PID, s.Host, s.Port, s.url(basePath)
	r.Workspace, r.StartedAt, r.HostConfigPath = s.Workspace, s.StartedAt, s.HostConfigPath
	if in.stale() {
		r.Status = statusStale
		return r, in.clean()
	}
	models, err := s.probe(ctx)
	if err != nil {
		r.Status, r.Error = statusNotResponding, err.Error()
		return r, nil
	}
	r.Status, r.Models = statusRunning, models
	return r, nil
}

// fate says what became of a stale file's process.
func (in *instance) fate() string {
	if inspect(in.state.PID).exists {
		return "is another process now"
	}
	return "no longer exists"
}

// probe asks the server for its models. Its errors hold no key.
func (s State) probe(ctx context.Context) (*ModelCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(modelsPath), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.APIKey)
	client := http.Client{
		// No proxy: it would be told the key, and the server is on this machine or an address of it.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("no answer within %s", probeTimeout)
	}
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the rest is known
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	var list struct {
		Data []struct {
			Provider string `json:"_provider"`
		} `json:"data"`
	}
	if err := codec.Read(resp.Body, maxModelBytes, &list); err != nil {
		return nil, fmt.Errorf("read models: %w", err)
	}
	c := &ModelCounts{Total: len(list.Data), ByProvider: map[string]int{}}
	for _, m := range list.Data {
		if m.Provider == "" {
			m.Provider = noProvider
		}
		c.ByProvider[m.Provider]++
	}
	return c, nil
}
