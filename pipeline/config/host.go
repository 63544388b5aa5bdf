package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxFileBytes bounds a host config.
const maxFileBytes = 1 << 20

// DefaultPrompt is what a model is told before anything else if the host config does not say otherwise.
const DefaultPrompt = "You are Amplifier, a careful software assistant. You answer precisely and briefly, use the tools you are offered " +
	"when they help, and say so when you do not know."

// What the keys of a choice may be.
const (
	ClientContain = "contain" // system.client
	ClientForward = "forward"

	SamplingIgnore  = "ignore"
	SamplingForward = "forward"

	StreamErrorsInline = "inline"
	StreamErrorsEvent  = "event"
)

// Modules are the provider modules there are (rulings 10), a closed set.
var Modules = []string{
	"commandcode", "chat-completions", "anthropic", "openai", "azure-openai", "ollama", "vllm", "gemini", "github-copilot", "replay",
}

// Host is a host config with defaults filled in (rulings 8). What each field means, Keys says. Raw JSON is valid, compact and in the
// order of the file.
type Host struct {
	Path string // of the file, absolute; "" if there is none

	MCP               []byte // raw JSON of any kind; nil if absent
	Approval          Approval
	Provider          Override
	Providers         []Provider // in the order of the file
	Skills            Skills
	Debug             Debug
	AllowProtocolSkew bool

	Fallbacks    []Fallback // in the order of the file
	Tools        []string
	System       System
	Sampling     string // SamplingIgnore or SamplingForward
	StreamErrors string // StreamErrorsInline or StreamErrorsEvent
	Preflight    time.Duration
	Store        Store
	Limits       Limits
	Telemetry    Telemetry
}

// Approval is the block of that name, without members that mean nothing here.
type Approval struct {
	Patterns []string
	Mode     string // yes, no or prompt; "" if absent
}

// Override is the block provider, singular: settings that go over those of the providers of that module.
type Override struct {
	Set    bool   // the block is there and is an object
	Module string // one of Modules; "" if absent
	Config []byte // raw JSON object, {} if absent; nil if the block is
}

// Provider is an entry of providers. ID is a free name, Module one of Modules, Config a raw JSON object that belongs to this
// provider (rulings 9), {} if absent.
type Provider struct {
	ID     string
	Module string
	Config []byte
}

// Fallback is a model, or AnyModel, and those that are asked in its place.
type Fallback struct {
	Model  string
	Others []string
}

// AnyModel as Fallback.Model stands for each model that has no entry.
const AnyModel = "*"

// Skills says where to look for skills. Load makes Dirs absolute, from the folder of the file; remote sources stay as they are.
type Skills struct {
	Visibility []byte // raw JSON object; nil if absent
	Dirs       []string
}

// Debug is the block of that name.
type Debug struct {
	RawLLMPayloads bool
}

// System is what is said to a model as the system (rulings 31).
type System struct {
	Prompt string // "" says nothing
	Client string // ClientContain or ClientForward
}

// Store says what is kept on disk.
type Store struct {
	Transcripts bool
	Ledger      bool
}

// Limits are the limits of a server.
type Limits struct {
	BodyBytes   int
	LineBytes   int
	Idle        time.Duration // 0 is no limit
	Tries       int           // of an upstream for one turn, 1 or more
	Drain       time.Duration // 0 waits for nobody
	Connections int           // 0 is no limit of ours
	FetchImages bool
	ImageBytes  int
}

// Telemetry says what a server counts.
type Telemetry struct {
	Metrics bool
}

// Default is the config of no file.
func Default() *Host {
	h := new(Host)
	for i := range Keys {
		if k := &Keys[i]; k.Default != "" && k.field != nil {
			if err := k.set(h, k.Path, []byte(k.Default)); err != nil {
				panic(err) // the table contradicts itself
			}
		}
	}
	return h
}

// Load reads a host config. No path is no file. Its errors name the file and wrap an *Error.
func Load(path string) (*Host, error) {
	path, err := File(path)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return Default(), nil
	}
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	h, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	h.Path = path
	for i, dir := range h.Skills.Dirs {
		if h.Skills.Dirs[i], err = resolve(filepath.Dir(path), dir); err != nil {
			return nil, fmt.Errorf("config %s: skills.skills[%d]: %w", path, i, err)
		}
	}
	return h, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(data) > maxFileBytes {
		return nil, &Error{Code: CodeUnreadable, Message: fmt.Sprintf("the file is larger than %d bytes: is it the right one?", maxFileBytes)}
	}
	return data, nil
}

// resolve makes a source of skills absolute if it is a folder of this machine.
func resolve(folder, source string) (string, error) {
	switch {
	case source == "", strings.HasPrefix(source, "git+"), strings.Contains(source, "://"):
		return source, nil
	case tilde(source), filepath.IsAbs(source):
		return absolute(source, os.Getenv)
	}
	return filepath.Join(folder, source), nil
}
