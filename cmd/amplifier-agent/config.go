package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/config"
)

// noConfig is what is said instead of a file's name.
const noConfig = "no host config: defaults apply"

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Look at the host config",
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
		Args:  cobra.NoArgs,
	}
	c.AddCommand(configCheckCommand(), configShowCommand())
	return c
}

func configCheckCommand() *cobra.Command {
	var flag string
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [PATH]",
		Short: "Say whether a host config is right",
		Long:  "Say whether a host config is right: that at PATH, else the one that a server would read. It ends with 0 if so and with 2 if not.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := hostConfigPath(os.Getenv, append(args, flag)...)
			resolved, err := config.File(path)
			if err == nil {
				path = resolved
				_, err = config.Load(path)
			}
			if asJSON {
				return errors.Join(err, printCheck(c.OutOrStdout(), path, err))
			}
			if err != nil {
				return err
			}
			if path == "" {
				return printLine(c.OutOrStdout(), noConfig)
			}
			return printLine(c.OutOrStdout(), path+": ok")
		},
	}
	configFlags(c, &flag)
	c.Flags().BoolVar(&asJSON, "json", false, "print {ok, path, error} on one line, whatever comes out")
	return c
}

func configShowCommand() *cobra.Command {
	var flag string
	var asJSON bool
	c := &cobra.Command{
		Use:   "show [PATH]",
		Short: "Print a host config with defaults filled in and secrets masked",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			host, err := config.Load(hostConfigPath(os.Getenv, append(args, flag)...))
			if err != nil {
				return err
			}
			text := host.Masked()
			if !asJSON {
				if text, err = host.Show(); err != nil {
					return failed(err)
				}
			}
			return printLine(c.OutOrStdout(), string(text))
		},
	}
	configFlags(c, &flag)
	c.Flags().BoolVar(&asJSON, "json", false, "print it on one line")
	return c
}

func configFlags(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "config", "", "host config file if no PATH is given ($"+envPrefix+"CONFIG_PATH, $AMPLIFIER_AGENT_CONFIG)")
}

// configFlagUsage describes the flag that names a host config.
const configFlagUsage = "host config file (default $" + envPrefix + "CONFIG_PATH or $AMPLIFIER_AGENT_CONFIG)"

// hostConfigPath is the path of the host config: the first that is given, else that of the environment, else none.
func hostConfigPath(env func(string) string, given ...string) string {
	for _, path := range append(given, env(envPrefix+"CONFIG_PATH"), env("AMPLIFIER_AGENT_CONFIG")) {
		if path = strings.TrimSpace(path); path != "" {
			return path
		}
	}
	return ""
}

// printCheck prints what a check came to, for programs. null stands for what there is not.
func printCheck(w io.Writer, path string, err error) error {
	type fault struct {
		Code    config.Code `json:"code"`
		Message string      `json:"message"`
		Path    *string     `json:"path"` // of the key
	}
	out := struct {
		OK    bool    `json:"ok"`
		Path  *string `json:"path"` // of the file
		Error *fault  `json:"error"`
	}{OK: err == nil}
	if path != "" {
		out.Path = &path
	}
	if e, ok := errors.AsType[*config.Error](err); ok {
		out.Error = &fault{Code: e.Code, Message: e.Message}
		if e.Path != "" {
			out.Error.Path = &e.Path
		}
	}
	b, err := codec.Marshal(out)
	if err != nil {
		return failed(err)
	}
	return printLine(w, string(b))
}

// printLine prints a line. That it cannot be written is no mistake of the user's.
func printLine(w io.Writer, s string) error {
	if _, err := fmt.Fprintln(w, s); err != nil {
		return failed(err)
	}
	return nil
}
