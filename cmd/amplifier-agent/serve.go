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

	"amplifier-agent/routes"
)

func serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve a wire face",
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
		Args:  cobra.NoArgs,
	}
	c.AddCommand(chatCommand())
	return c
}

func chatCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "chat-completions",
		Short: "Serve the OpenAI chat-completions API",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.resolve(c, getenv)
			if err != nil {
				return err
			}
			return withServer(c.Context(), o, c.ErrOrStderr(), func(ctx context.Context, _ string) error {
				<-ctx.Done()
				return nil
			})
		},
	}
	f.register(c)
	return c
}

// withServer starts a server, lets use work with it, and shuts it down: when use returns, when a signal arrives (use's context
// ends then), or when the server fails. url is where it listens.
func withServer(ctx context.Context, o serveOptions, stderr io.Writer, use func(ctx context.Context, url string) error) error {
	log, err := logger(stderr, o.logLevel)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	u, err := openUpstreams(ctx, o.demo, getenv, log)
	if ctx.Err() != nil {
		err = errors.Join(failed(errors.New("interrupted before it was ready")), err)
	}
	if err != nil {
		return err
	}
	defer u.close()
	ln, err := net.Listen("tcp", net.JoinHostPort(o.bind, strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("%w: choose another port with --port", err)
	}
	s := newServer(o, u, log)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	url := "http://" + ln.Addr().String()
	banner(stderr, url, o)

	ctx, cancel := context.WithCancel(ctx)
	used := make(chan error, 1)
	go func() { used <- use(ctx, url) }()
	select {
	case err = <-served: // it has failed: nobody asked it to stop
		cancel()
		return failed(fmt.Errorf("serve: %w", errors.Join(err, <-used)))
	case err = <-used:
	}
	cancel()
	return shutDown(s, served, err, stderr)
}

// shutDown lets running answers end; a second signal cuts them off.
func shutDown(s *routes.Server, served <-chan error, result error, stderr io.Writer) error {
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(routes.DefaultDrain) }()
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
func banner(w io.Writer, url string, o serveOptions) {
	workspace, config := o.workspace, o.config
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
	fmt.Fprintf(w, "amplifier-agent chat-completions listening on %s\n  API key:   %s\n  Model:     %s\n  Workspace: %s\n  Config:    %s\n%s",
		url, o.key, o.modelID, workspace, config, upstream)
	if o.key == defaultKey {
		fmt.Fprintln(w, "  (the default API key is public knowledge: set --api-key if others can reach this machine's loopback)")
	}
	fmt.Fprintf(w, "ready: OPENAI_BASE_URL=%s/v1 OPENAI_API_KEY=%s\n", url, o.key)
}

// patience bounds commands that only ask.
const patience = 30 * time.Second
