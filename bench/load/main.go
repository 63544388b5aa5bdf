package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// options is what is asked for.
type options struct {
	only     string
	subjects string
	server   string
	svg      string
	quick    bool
	guarding bool
}

func run(args []string, stdout, stderr io.Writer) error {
	if len(args) > 1 && args[0] == "as-gateway" {
		return gatewayMain(args[1])
	}
	if len(args) > 2 && args[0] == "as-relay" {
		return relayMain(args[1], args[2])
	}
	var o options
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.only, "only", "", "workloads to run, separated by commas")
	f.StringVar(&o.subjects, "subjects", "direct,relay,server", "what to measure: direct (the gateway alone), relay, server")
	f.StringVar(&o.server, "server", "", "binary of the server; it is built if none is named")
	f.StringVar(&o.svg, "svg", "", "file to draw the result in")
	f.BoolVar(&o.quick, "quick", false, "shorter runs")
	f.BoolVar(&o.guarding, "guard", false, "instead, fail if a figure is beyond its limit (guard.go)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if runtime.GOOS != "linux" {
		return errors.New("processor time and memory are read from /proc, which only Linux has")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.guarding {
		return o.guard(ctx, stdout, stderr)
	}
	list := workloads(o.quick)
	if o.only != "" {
		wanted := strings.Split(o.only, ",")
		list = slices.DeleteFunc(list, func(w workload) bool { return !slices.Contains(wanted, w.name) })
	}
	if len(list) == 0 {
		return fmt.Errorf("no workload is called %s", o.only)
	}
	rows, err := o.measure(ctx, list, stderr)
	printTable(stdout, rows)
	if err == nil && o.svg != "" {
		err = os.WriteFile(o.svg, plot(rows), 0o644)
	}
	return err
}

// measure runs each workload on each subject, workload by workload, so that what is compared lies close together.
// It has options of its own, as the server that it builds is gone afterwards.
func (o options) measure(ctx context.Context, list []workload, progress io.Writer) (rows []row, err error) {
	dir, err := os.MkdirTemp("", "load-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.server == "" && strings.Contains(o.subjects, "server") {
		o.server = filepath.Join(dir, "server")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.server, "amplifier-agent/cmd/amplifier-agent").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the server: %w\n%s", err, out)
		}
	}
	for _, w := range list {
		for _, subject := range strings.Split(o.subjects, ",") {
			if ctx.Err() != nil {
				return rows, context.Cause(ctx)
			}
			fmt.Fprintf(progress, "%s, %s …\n", w.name, subject)
			r, err := o.one(ctx, w, subject, dir)
			if err != nil {
				return rows, fmt.Errorf("%s, %s: %w", w.name, subject, err)
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// one runs a workload on fresh processes.
func (o *options) one(ctx context.Context, w workload, subject, dir string) (r row, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	at, err := free()
	if err != nil {
		return r, err
	}
	gateway, err := launch(at, nil, self, "as-gateway", at)
	if err != nil {
		return r, err
	}
	defer gateway.stop()
	server := gateway
	if subject != "direct" {
		if at, err = free(); err != nil {
			return r, err
		}
		if subject == "relay" {
			server, err = launch(at, nil, self, "as-relay", at, gateway.addr)
		} else {
			server, err = o.startServer(at, gateway.addr, dir)
		}
		if err != nil {
			return r, err
		}
		defer server.stop()
	}
	return watch(ctx, w, subject, gateway, server)
}

func (o *options) startServer(addr, gateway, dir string) (*process, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	env := []string{
		"HOME=" + dir, "AMPLIFIER_AGENT_HOME=" + dir, "AMPLIFIER_AGENT_HTTP_API_KEY=" + clientKey,
		"COMMANDCODE_API_KEY=gateway-key", "COMMANDCODE_BASE_URL=http://" + gateway, "COMMANDCODE_SURFACE=generate",
	}
	return launch(addr, env, o.server, "serve", "chat-completions", "--port", port, "--log-level", "error")
}

// watch lets a crowd loose on the server and looks.
func watch(ctx context.Context, w workload, subject string, gateway, server *process) (r row, err error) {
	r = row{load: w, subject: subject}
	pid := server.cmd.Process.Pid
	time.Sleep(200 * time.Millisecond) // it has just begun
	idle, err := memory(pid)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &crowd{addr: server.addr, load: w}
	c.start(ctx)
	if err := rest(ctx, startSpread+w.warm); err != nil {
		return r, err
	}
	read := func() (m, s, all time.Duration) {
		var errs [4]error
		var mine, g time.Duration
		all, errs[0] = busy()
		s, errs[1] = cpu(pid)
		g, errs[2] = cpu(gateway.cmd.Process.Pid)
		mine, errs[3] = cpu(os.Getpid())
		err = errors.Join(err, errors.Join(errs[:]...))
		if m = mine + s; server != gateway {
			m += g
		}
		return m, s, all
	}
	known, used, all := read()
	began := time.Now()
	c.measuring.Store(true)
	if err := rest(ctx, w.measure); err != nil {
		return r, err
	}
	c.measuring.Store(false)
	r.took = time.Since(began)
	known2, used2, all2 := read()
	held, err2 := memory(pid)
	r.open = int(c.open.Load())
	cancel()
	c.wg.Wait()
	r.tally, r.cpu, r.idle, r.held = c.sum, used2-used, idle, held
	r.others = float64(max((all2-all)-(known2-known), 0)) / float64(r.took) / float64(runtime.NumCPU())
	return r, errors.Join(err, err2)
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
