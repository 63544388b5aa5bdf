package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"amplifier-agent/cmd/internal/lifecycle"
	"amplifier-agent/pipeline/config"
)

// maxStopTimeout bounds --timeout, in seconds.
const maxStopTimeout = 3600

func statusCommand() *cobra.Command {
	return lifecycleCommand("status", "Tell which servers run, and what they serve", lifecycle.Status)
}

func stopCommand() *cobra.Command {
	return lifecycleCommand("stop", "Stop a server", lifecycle.Stop)
}

func restartCommand() *cobra.Command {
	return lifecycleCommand("restart", "Stop a server and start it again as it was, in the background", lifecycle.Restart)
}

// lifecycleCommand is a command about servers that run (http-face.md, "Launch and lifecycle").
func lifecycleCommand(name, short string, run lifecycle.Command) *cobra.Command {
	var o lifecycle.Options
	var timeout float64 // seconds
	c := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if c.Flags().Changed("port") && (o.Port < 1 || o.Port > 65535) {
				return fmt.Errorf("port %d: use 1 to 65535", o.Port)
			}
			if !(timeout >= 0 && timeout <= maxStopTimeout) { // nor NaN
				return fmt.Errorf("timeout %v: use 0 to %d seconds", timeout, maxStopTimeout)
			}
			if c.Flags().Changed("timeout") {
				d := time.Duration(timeout * float64(time.Second))
				o.Timeout = &d
			}
			if o.Home, err = config.Home(getenv); err != nil {
				return err
			}
			o.Stdout, o.Stderr, o.Environ = c.OutOrStdout(), c.ErrOrStderr(), os.Environ()
			code, err := run(c.Context(), o)
			if code == exitOK {
				return nil
			}
			return &exitError{code, err} // without an error if all was said
		},
	}
	fs := c.Flags()
	fs.BoolVar(&o.JSON, "json", false, "print one JSON object and nothing else")
	fs.IntVar(&o.Port, "port", 0, "the server on this port (default serve.json's, or the only one)")
	if name == "stop" {
		fs.BoolVar(&o.Force, "force", false, "kill it at once")
		fs.Float64Var(&timeout, "timeout", 0, "seconds until it is killed if it does not end by itself (default 5, or 2 more than its limits.drainSeconds if that is longer)")
	}
	return c
}
