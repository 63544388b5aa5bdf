package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"amplifier-agent/pipeline/config"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
)

// Defaults of the contract (http-face.md, "Environment configuration").
const (
	defaultBind  = "127.0.0.1"
	defaultPort  = 9099
	defaultKey   = "local-dev-secret"
	defaultModel = "amplifier"
	envPrefix    = "AMPLIFIER_AGENT_HTTP_"
)

// serveOptions is how a server is to run, from flags, then the environment, then defaults (rulings 4).
type serveOptions struct {
	bind      string
	port      int
	key       string
	noAuth    bool
	modelID   string
	workspace string
	derived   bool   // workspace comes from the working directory
	config    string // absolute path of the host config, "" for none
	logLevel  string
	stream    chat.StreamDefault
	demo      bool
	record    string   // absolute path of the folder for recordings, "" for none
	hosts     []string // host names that are ours, beside those of the address
	origins   []string // whose pages may use the server
	home      string   // where state is kept
	cwd       string
}

// serveFlags are the flags as given; unset ones do not count.
type serveFlags struct {
	serveOptions
}

func (f *serveFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.bind, "bind", defaultBind, "address to listen on ($"+envPrefix+"BIND)")
	fs.IntVar(&f.port, "port", defaultPort, "port to listen on, 0 for any free one ($"+envPrefix+"PORT)")
	fs.StringVar(&f.key, "api-key", defaultKey, "bearer key that clients must send ($"+envPrefix+"API_KEY)")
	fs.StringVar(&f.workspace, "workspace", "", "workspace slug (default derived from the working directory; $"+envPrefix+"WORKSPACE)")
	fs.StringVar(&f.modelID, "model-id", defaultModel, "model label of every response ($"+envPrefix+"MODEL_ID)")
	fs.StringVar(&f.config, "config", "", "host config file; it must exist ($"+envPrefix+"CONFIG_PATH)")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warning, error or critical ($"+envPrefix+"LOG_LEVEL)")
	fs.StringVar(&f.record, "record", "", "folder to record exchanges with upstreams in, for reports and the replay provider ($"+envPrefix+"RECORD)")
	fs.BoolVar(&f.demo, "demo", false, "use the built-in gateway simulator as the upstream: no key, no network")
}

// resolve settles each option.
func (f *serveFlags) resolve(c *cobra.Command, env func(string) string) (o serveOptions, err error) {
	set := c.Flags().Changed
	pick := func(flag, given, fallback string, names ...string) string {
		if set(flag) {
			return given
		}
		for _, name := range names {
			if v := strings.TrimSpace(env(name)); v != "" {
				return v
			}
		}
		return fallback
	}
	o.demo = f.demo
	o.logLevel = pick("log-level", f.logLevel, "info", envPrefix+"LOG_LEVEL")
	o.hosts = list(env(envPrefix + "ALLOW_HOSTS"))
	o.origins = list(env(envPrefix + "ALLOW_ORIGINS"))
	if err := (routes.Guard{Hosts: o.hosts, Origins: o.origins}).Check(); err != nil {
		return o, fmt.Errorf("%sALLOW_HOSTS, %sALLOW_ORIGINS: %w", envPrefix, envPrefix, err)
	}
	o.bind = strings.Trim(strings.TrimSpace(pick("bind", f.bind, defaultBind, envPrefix+"BIND")), "[]")
	o.key = strings.TrimSpace(pick("api-key", f.key, defaultKey, envPrefix+"API_KEY"))
	o.modelID = strings.TrimSpace(pick("model-id", f.modelID, defaultModel, envPrefix+"MODEL_ID"))
	o.port = f.port
	if v := env(envPrefix + "PORT"); !set("port") && v != "" {
		if o.port, err = strconv.Atoi(strings.TrimSpace(v)); err != nil {
			o.port = defaultPort // the contract's word for a port that is no number
		}
	}
	if o.port < 0 || o.port > 65535 {
		return o, fmt.Errorf("port %d: use 0 to 65535", o.port)
	}
	if o.cwd, err = os.Getwd(); err != nil {
		return o, fmt.Errorf("working directory: %w", err)
	}
	if o.home, err = config.Home(env); err != nil {
		return o, err
	}
	if o.workspace = strings.TrimSpace(pick("workspace", f.workspace, "", envPrefix+"WORKSPACE", "AMPLIFIER_AGENT_WORKSPACE")); o.workspace == "" {
		o.workspace, o.derived = config.Workspace(o.cwd), true
	}
	if err := config.CheckWorkspace(o.workspace); err != nil {
		return o, err
	}
	if set("config") && strings.TrimSpace(f.config) == "" {
		return o, errors.New("--config names no file: leave it out to run without one")
	}
	if o.config, err = config.File(pick("config", f.config, "", envPrefix+"CONFIG_PATH", "AMPLIFIER_AGENT_CONFIG")); err != nil {
		return o, err
	}
	if set("record") && strings.TrimSpace(f.record) == "" {
		return o, errors.New("--record names no folder: leave it out to record nothing")
	}
	if o.record = strings.TrimSpace(pick("record", f.record, "", envPrefix+"RECORD")); o.record != "" && !filepath.IsAbs(o.record) {
		o.record = filepath.Join(o.cwd, o.record)
	}
	o.stream = chat.StreamDefault(pick("", "", string(chat.StreamAuto), envPrefix+"STREAM_DEFAULT"))
	switch o.stream {
	case chat.StreamAuto, chat.StreamSSE, chat.StreamJSON:
	default:
		return o, fmt.Errorf("%sSTREAM_DEFAULT=%q: use auto, sse or json", envPrefix, o.stream)
	}
	if o.bind == "" {
		return o, errors.New("--bind names no address: use 0.0.0.0 or :: to listen on every one")
	}
	if o.modelID == "" {
		return o, fmt.Errorf("the model label must not be empty: set --model-id or %sMODEL_ID", envPrefix)
	}
	if o.key == "" {
		return o, fmt.Errorf("the API key must not be empty: set --api-key or %sAPI_KEY", envPrefix)
	}
	switch auth := strings.ToLower(strings.TrimSpace(env(envPrefix + "AUTH"))); {
	case auth == "" || auth == "on":
	case auth != "off":
		return o, fmt.Errorf("%sAUTH=%q: use on or off", envPrefix, auth)
	case !routes.Loopback(o.bind):
		return o, fmt.Errorf("refusing to listen on %s without authentication: %sAUTH=off is for loopback addresses", o.bind, envPrefix)
	case slices.Contains(o.origins, "*"):
		return o, fmt.Errorf("refusing to serve every web page without authentication: with %sAUTH=off, %sALLOW_ORIGINS must name origins", envPrefix, envPrefix)
	default:
		o.noAuth = true
	}
	if o.key == defaultKey && !routes.Loopback(o.bind) {
		return o, fmt.Errorf("refusing to listen on %s with the default API key: set --api-key or %sAPI_KEY", o.bind, envPrefix)
	}
	return o, nil
}

// list splits a value at its commas.
func list(value string) (items []string) {
	for s := range strings.SplitSeq(value, ",") {
		if s = strings.TrimSpace(s); s != "" {
			items = append(items, s)
		}
	}
	return items
}

// logger writes to w from level on, with the secrets that mask knows taken out.
func logger(w io.Writer, level string, mask *secret.Mask) (*slog.Logger, error) {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn, "warn": slog.LevelWarn,
		"error": slog.LevelError, "critical": slog.LevelError + 4,
	}
	l, ok := levels[strings.ToLower(level)]
	if !ok {
		return nil, fmt.Errorf("log level %q: use debug, info, warning, error or critical", level)
	}
	return slog.New(mask.Handler(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}))), nil
}
