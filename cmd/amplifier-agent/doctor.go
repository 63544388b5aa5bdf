package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"amplifier-agent/cmd/internal/lifecycle"
	"amplifier-agent/codec"
	"amplifier-agent/pipeline/config"
	"amplifier-agent/pipeline/secret"
)

const (
	maxSkew    = 5 * time.Minute // of the clock: tokens and certificates become invalid beyond
	builtYear  = 2026            // of a build that does not know when it was made
	othersPerm = 0o077           // mode bits of everybody but the owner
)

// check is something that has to be right before a server runs well.
type check struct {
	name string
	run  func(context.Context, *examination)
}

// checks are made in this order; later ones use what earlier ones have found out.
var checks = []check{
	{"home", checkHome},
	{"config", checkConfig},
	{"credentials", checkCredentials},
	{"providers", checkProviders},
	{"servers", checkServers},
	{"port", checkPort},
	{"upstream", checkUpstreams},
	{"clock", checkClock},
	{"catalog", checkCatalog},
}

// What a finding can be. Only a failure makes the command fail.
const (
	findingOK   = "ok"
	findingWarn = "warn"
	findingFail = "fail"
)

// finding is a line of the report.
type finding struct {
	Check   string `json:"check"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"` // what to do
}

// examination is what the checks know and have found.
type examination struct {
	env      func(string) string
	now      func() time.Time
	home     string
	userHome string
	cwd      string
	file     string // the host config that is named

	host     *config.Host // nil if it cannot be used
	accounts config.Credentials
	mask     secret.Mask
	servers  []lifecycle.ServerStatus
	listens  serveOptions  // where a server would listen
	skew     time.Duration // of an upstream's clock against ours
	dated    string        // the upstream that told the time; "" if none did

	check string // the one that runs
	found []finding
}

func (x *examination) say(status, remedy, format string, args ...any) {
	text := func(s string) string { return printable(x.mask.String(s)) }
	x.found = append(x.found, finding{x.check, status, text(fmt.Sprintf(format, args...)), text(remedy)})
}

func (x *examination) ok(format string, args ...any) { x.say(findingOK, "", format, args...) }
func (x *examination) warn(remedy, format string, args ...any) {
	x.say(findingWarn, remedy, format, args...)
}
func (x *examination) fail(remedy, format string, args ...any) {
	x.say(findingFail, remedy, format, args...)
}

func (x *examination) failed() bool {
	for _, f := range x.found {
		if f.Status == findingFail {
			return true
		}
	}
	return false
}

func doctorCommand() *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a server from running well",
		Long: "Look for what keeps a server from running well: a line for each finding, with what to do. It ends with 1 if something failed.\n" +
			"Upstreams are connected to, without a key. Of servers that have ended, the state files are removed.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			x := &examination{env: getenv, now: time.Now, file: hostConfigPath(getenv, file), userHome: userHome()}
			var err error
			if x.home, err = config.Home(getenv); err != nil {
				return err
			}
			if x.cwd, err = os.Getwd(); err != nil {
				return failed(fmt.Errorf("working directory: %w", err))
			}
			for _, k := range checks {
				x.check = k.name
				k.run(c.Context(), x)
			}
			if err := x.print(c.OutOrStdout(), asJSON); err != nil {
				return failed(err)
			}
			if x.failed() {
				return &exitError{code: exitFailure}
			}
			return nil
		},
	}
	c.Flags().StringVar(&file, "config", "", configFlagUsage)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object on one line")
	return c
}

func (x *examination) print(w io.Writer, asJSON bool) error {
	if asJSON {
		b, err := codec.Marshal(struct {
			SchemaVersion int       `json:"schema_version"`
			OK            bool      `json:"ok"`
			Checks        []finding `json:"checks"`
		}{1, !x.failed(), x.found})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", b)
		return err
	}
	var b strings.Builder
	for _, f := range x.found {
		fmt.Fprintf(&b, "%-4s  %-11s  %s", f.Status, f.Check, f.Message)
		if f.Remedy != "" {
			b.WriteString(": " + f.Remedy)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func checkHome(_ context.Context, x *examination) {
	const elsewhere = "set AMPLIFIER_AGENT_HOME to a folder of your own"
	info, err := os.Stat(x.home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.ok("%s is not there yet and will be made when it is needed", x.home)
		return
	case err != nil:
		x.fail(elsewhere, "%v", err)
		return
	case !info.IsDir():
		x.fail("move it out of the way, or "+elsewhere, "%s is no folder", x.home)
		return
	}
	f, err := os.CreateTemp(x.home, ".doctor-*.tmp")
	if err != nil {
		x.fail("let this user write to it, or "+elsewhere, "%s cannot be written to: %v", x.home, err)
		return
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	tight := true
	for _, dir := range []string{x.home, filepath.Join(x.home, "state")} {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&othersPerm != 0 && runtime.GOOS != "windows" {
			tight = false
			x.warn("chmod 700 it", "%s is open to others (mode %#o)", dir, info.Mode().Perm())
		}
	}
	if tight {
		x.ok("%s can be written to, by this user only", x.home)
	}
}

func checkConfig(_ context.Context, x *examination) {
	host, err := config.Load(x.file)
	if err != nil {
		x.fail("correct it, then try amplifier-agent config check", "%v", err)
		return
	}
	x.host = host
	x.ok("%s", cmp.Or(host.Path, noConfig))
	if err := ignored(host, slog.New(slog.DiscardHandler)); err != nil {
		x.fail("", "%v", err)
	}
}

// checkCredentials tells what each provider of a server is reached with, and then what else there is.
func checkCredentials(_ context.Context, x *examination) {
	uses := x.uses()
	var providers []config.Provider
	for _, u := range uses {
		providers = append(providers, config.Provider{ID: u.id, Module: u.module, Config: u.cfg})
	}
	x.accounts = config.ResolveAll(x.env, x.home, x.userHome, providers)
	for _, c := range x.accounts.List {
		x.mask.Add(c.Key)
	}
	for _, w := range x.accounts.Warnings {
		x.warn("", "%s", w)
	}
	var none, found []string
	for _, c := range x.accounts.List {
		name, note := c.ID, ""
		if c.ID != c.Module {
			name += " (" + c.Module + ")"
		}
		used := slices.ContainsFunc(uses, func(u use) bool { return u.id == c.ID && u.module == c.Module })
		switch {
		case used && c.Source == config.SourceDefault:
			x.ok("%s: %s by default", name, shownURL(c.Endpoint))
			continue
		case used && !c.Resolved:
			x.warn("", "%s: $%s is not set, and nothing stands in its place", name, c.Variable) // what to do, the check of the providers tells
			continue
		case !c.Resolved:
			none = append(none, c.ID)
			continue
		case !used && x.host != nil && x.sources().ownKey(c.Key):
			note = ", which is the key of this server's own clients and not used"
		case !used && x.host != nil:
			found = append(found, c.ID)
			continue
		}
		parts := []string{name + ":"}
		for _, part := range []string{c.MaskedKey(), shownURL(c.Endpoint), "from " + origin(c) + note} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		x.ok("%s", strings.Join(parts, " "))
		if c.Shared && used {
			remedy := "give it an api_key of its own in the host config, if that is not meant"
			if module, _, err := config.CredentialModule(c.ID, x.host.Providers); err == nil && module == c.Module && c.ID != module {
				remedy = "give it one of its own with amplifier-agent auth set " + c.ID + ", if that is not meant"
			}
			x.warn(remedy, "%s: the key of all providers of the module %s goes to %s", name, c.Module, shownURL(c.Endpoint))
		}
	}
	if len(found) > 0 {
		x.ok("not used, since the host config names others: %s", strings.Join(found, ", "))
	}
	if len(none) > 0 && (x.host == nil || len(x.host.Providers) == 0) {
		x.ok("none for %s", strings.Join(none, ", "))
	}
	if len(x.accounts.Unknown) > 0 && x.host != nil {
		x.ok("nobody reads these entries of %s, since no kind of provider, nor one of the host config, is called so: %s",
			config.CredentialFile(x.home), strings.Join(x.accounts.Unknown, ", "))
	}
}

func checkServers(ctx context.Context, x *examination) {
	var out bytes.Buffer
	_, err := lifecycle.Status(ctx, lifecycle.Options{Home: x.home, JSON: true, Stdout: &out, Stderr: io.Discard})
	var r lifecycle.StatusReport
	if err == nil {
		err = codec.Unmarshal(out.Bytes(), &r)
	}
	if err == nil && r.Error != "" && len(r.Servers) == 0 {
		err = errors.New(r.Error)
	}
	if err != nil {
		x.fail("look at amplifier-agent serve status", "%v", err)
		return
	}
	x.servers = r.Servers
	if len(r.Servers) == 0 {
		x.ok("none runs")
	}
	for _, s := range r.Servers {
		switch {
		case s.Status == "running" && s.Models != nil:
			x.ok("%s (PID %d) serves %d models", s.URL, s.PID, s.Models.Total)
		case s.Status == "stale":
			x.warn("its state file was removed", "the server with PID %d on port %d has ended without a word", s.PID, s.Port)
		case s.PID > 0 && s.URL != "":
			x.fail(fmt.Sprintf("amplifier-agent serve restart --port %d", s.Port), "%s (PID %d) does not answer: %s", s.URL, s.PID, s.Error)
		default:
			x.fail("", "%s", s.Error)
		}
	}
}

func checkPort(_ context.Context, x *examination) {
	var f serveFlags
	none := new(cobra.Command) // of the flags is given
	f.register(none)
	o, err := f.resolve(none, func(name string) string {
		if name == envPrefix+"CONFIG_PATH" || name == "AMPLIFIER_AGENT_CONFIG" {
			return "" // it has a check of its own
		}
		return x.env(name)
	})
	if err != nil {
		x.fail("correct the environment", "%v", err)
		return
	}
	x.listens = o
	ln, err := listen(o.bind, o.port)
	if err == nil {
		x.ok("%s is free", ln.Addr())
		_ = ln.Close()
		return
	}
	for _, s := range x.servers {
		if s.Port == o.port && (s.Status == "running" || s.Status == "not_responding") {
			x.ok("%d is in use by the server with PID %d", o.port, s.PID)
			return
		}
	}
	x.fail("choose another with --port or "+envPrefix+"PORT, or another address with --bind", "no server could listen: %v", err)
}

func checkClock(_ context.Context, x *examination) {
	now := x.now()
	const remedy = "set this machine's clock"
	if year := buildYear(); now.Year() < year {
		x.fail(remedy, "the clock says %s, and this program was built in %d", now.UTC().Format(time.DateOnly), year)
		return
	}
	switch {
	case x.dated == "":
		x.ok("%s (no upstream to compare it with)", now.UTC().Format(time.RFC3339))
	case x.skew.Abs() > maxSkew:
		x.warn(remedy, "the clock differs by %s from that of %s", x.skew.Abs().Round(time.Second), x.dated)
	default:
		x.ok("%s, as %s has it", now.UTC().Format(time.RFC3339), x.dated)
	}
}

func buildYear() int {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if made, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				return made.Year()
			}
		}
	}
	return builtYear
}

func checkCatalog(_ context.Context, x *examination) {
	host := x.host
	if host == nil {
		host = config.Default()
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	modes, skills := discover(x.cwd, host, x.env, log)
	for _, list := range []struct {
		name string
		n    int
		err  error
	}{{"modes", len(modes.List()), modes.Err()}, {"skills", len(skills.List()), skills.Err()}} {
		if list.err != nil {
			x.fail("", "%s: %v", list.name, list.err)
			continue
		}
		x.ok("%d %s", list.n, list.name)
	}
	if n := bytes.Count(said.Bytes(), []byte("\n")); n > 0 && modes.Err() == nil && skills.Err() == nil {
		x.warn("amplifier-agent modes list and skills list name them", "%d files or folders of modes and skills cannot be used as they are", n)
	}
}
