// Command amplifier-agent is an OpenAI-compatible server in front of streaming model gateways.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes, all of them.
const (
	exitOK      = 0
	exitFailure = 1 // something went wrong while running
	exitUsage   = 2 // the command line, the configuration, or a startup that could not complete
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// exitError carries an exit code. Without an error it says nothing: all has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// failed marks an error that came up after startup.
func failed(err error) error { return &exitError{exitFailure, err} }

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "amplifier-agent",
		Short:         "An OpenAI-compatible server in front of streaming model gateways",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(), demoCommand(), modelsCommand(), modesCommand(), skillsCommand(), configCommand(), accountCommand(), authCommand(), doctorCommand(), versionCommand())
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	e, ok := errors.AsType[*exitError](err)
	if !ok || e.err != nil {
		fmt.Fprintf(stderr, "amplifier-agent: %v\n", err)
	}
	if ok {
		return e.code
	}
	return exitUsage
}
