package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"amplifier-agent/cmd/internal/gcpace"
	"amplifier-agent/cmd/internal/lifecycle"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/routes"
)

// faceChat is the face's name on the command line.
const faceChat = "chat-completions"

func serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve a wire face",
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
		Args:  cobra.NoArgs,
	}
	c.AddCommand(chatCommand(), statusCommand(), stopCommand(), restartCommand())
	return c
}

func chatCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   faceChat,
		Short: "Serve the OpenAI chat-completions API",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.resolve(c, getenv)
			if err != nil {
				return err
			}
			return withServer(c.Context(), o, c.ErrOrStderr(), true, func(ctx context.Context, _ string) error {
				<-ctx.Done()
				return nil
			})
		},
	}
	f.register(c)
	return c
}

// withServer starts a server, lets use work with it, and shuts it down: when use returns, when a signal arrives (use's context
// ends then), or when the server fails. url is where it listens. A published server can be found by serve status, stop and restart.
func withServer(ctx context.Context, o serveOptions, stderr io.Writer, publish bool, use func(ctx context.Context, url string) error) error {
	mask := new(secret.Mask)
	mask.Add(o.key)
	log, err := logger(stderr, o.logLevel, mask)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, endSignals()...)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // whoever read the log may go; the server stays
	p, err := assemble(ctx, o, log, mask)
	if ctx.Err() != nil {
		if p != nil {
			p.close()
		}
		if publish { // a server that is told to end has done so
			log.Info("told to end before it was ready")
			return nil
		}
		return failed(errors.New("interrupted before it was ready"))
	}
	if err != nil {
		return err
	}
	defer p.close()
	ln, err := listen(o.bind, o.port)
	if err != nil {
		return fmt.Errorf("%w: choose another port with --port, or another address with --bind", err)
	}
	s := newServer(p)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	url := "http://" + reachable(ln.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if publish {
		settings, credentials := o.variables(getenv)
		published, err := lifecycle.Publish(o.home, state(o, ln, p.up.summary()), lifecycle.Launch{
			Face: faceChat, ModelID: o.modelID, LogLevel: o.logLevel, Demo: o.demo, Record: o.record,
			DrainSeconds: p.host.Limits.Drain.Seconds(), Settings: settings, Credentials: credentials,
		})
		if err != nil {
			return errors.Join(err, shutDown(s, 0, served, nil, stderr))
		}
		defer func() {
			if err := published.Remove(); err != nil {
				log.Error("remove the state file", "error", err)
			}
		}()
	}
	defer gcpace.Start()()
	banner(stderr, ln.Addr().String(), url, o)

	used := make(chan error, 1)
	go func() { used <- use(ctx, url) }()
	select {
	case err = <-served: // it has failed: nobody asked it to stop
		cancel()
		return failed(fmt.Errorf("serve: %w", errors.Join(err, <-used)))
	case err = <-used:
	}
	cancel()
	return shutDown(s, p.host.Limits.Drain, served, err, stderr)
}

// listen binds to what it is told and no more: to listen on every address of IPv4 is not to listen on those of IPv6.
func listen(bind string, port int) (net.Listener, error) {
	network := "tcp"
	if ip := net.ParseIP(bind); ip != nil && ip.To4() != nil {
		network = "tcp4"
	}
	return net.Listen(network, net.JoinHostPort(bind, strconv.Itoa(port)))
}

// reachable is an address as clients of this machine write it.
func reachable(a net.Addr) string {
	tcp := *a.(*net.TCPAddr)
	if tcp.IP.IsUnspecified() {
		if tcp.IP.To4() != nil {
			tcp.IP = net.IPv4(127, 0, 0, 1)
		} else {
			tcp.IP = net.IPv6loopback
		}
	}
	return tcp.String()
}

// state is what the state file says of a server, but for what is the same for each.
func state(o serveOptions, ln net.Listener, summary map[string]int) lifecycle.State {
	s := lifecycle.State{Host: o.bind, Port: ln.Addr().(*net.TCPAddr).Port, APIKey: o.key, Workspace: o.workspace, ProvidersSummary: summary}
	if o.config != "" {
		s.HostConfigPath = &o.config
	}
	return s
}

// endSignals are those that end a server. A hang-up counts unless somebody has seen to it that it does not.
func endSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// shutDown lets running answers end; a second signal cuts them off.
func shutDown(s *routes.Server, drain time.Duration, served <-chan error, result error, stderr io.Writer) error {
	again := make(chan os.Signal, 1)
	signal.Notify(again, endSignals()...)
	defer signal.Stop(again)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(drain) }()
	var err error
	select {
	case err = <-done:
	case <-again:
		fmt.Fprintln(stderr, "amplifier-agent: second signal: cutting off running answers")
		s.Cut()
		err = <-done
	}
	err = errors.Join(err, <-served)
	if result == nil && err != nil {
		result = failed(fmt.Errorf("shut down: %w", err))
	}
	return result
}

// banner says where the server is and how to reach it, on stderr: stdout belongs to whoever pipes it.
func banner(w io.Writer, addr, url string, o serveOptions) {
	workspace, config, key := o.workspace, o.config, o.key
	if o.noAuth {
		key = "(none: " + envPrefix + "AUTH=off, whoever reaches the address is served)"
	}
	if o.derived {
		workspace += " (cwd-derived)"
	}
	if config == "" {
		config = "(none)"
	}
	upstream := ""
	if o.demo {
		upstream = "  Upstream:  built-in simulator (--demo)\n"
	}
	fmt.Fprintf(w, "amplifier-agent chat-completions listening on http://%s\n  API key:   %s\n  Model:     %s\n  Workspace: %s\n  Config:    %s\n%s",
		addr, key, o.modelID, workspace, config, upstream)
	if o.record != "" {
		fmt.Fprintf(w, "  Recording: %s (keys are masked and requests' texts left out; answers are kept as they come: read before you share)\n", o.record)
	}
	if o.key == defaultKey && !o.noAuth {
		fmt.Fprintln(w, "  (the default API key is public knowledge: set --api-key if others can reach this machine's loopback)")
	}
	fmt.Fprintf(w, "ready: OPENAI_BASE_URL=%s/v1 OPENAI_API_KEY=%s\n", url, o.key)
}
