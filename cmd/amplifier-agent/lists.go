package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/catalog"
	"amplifier-agent/pipeline/config"
)

// listFormat is how a list is printed.
type listFormat struct {
	json   bool
	output string
}

func (f *listFormat) register(c *cobra.Command, what string) {
	c.Flags().BoolVar(&f.json, "json", false, "print "+what)
	c.Flags().StringVar(&f.output, "output", "auto", "auto or table: a table; json: as --json")
}

func (f *listFormat) asJSON() (bool, error) {
	switch f.output {
	case "auto", "table":
		return f.json, nil
	case "json":
		return true, nil
	}
	return false, fmt.Errorf("output %q: use auto, json or table", f.output)
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}

func modesCommand() *cobra.Command {
	var format listFormat
	c := &cobra.Command{
		Use:   "list",
		Short: "List the modes that a server started here would have",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return listCatalog(c, &format, "modes list", "", func(m catalogs) ([]catalog.Entry, error) { return m.modes.List(), m.modes.Err() })
		},
	}
	format.register(c, "a JSON array")
	return group("modes", "Ways of working that a client can switch on", c)
}

func skillsCommand() *cobra.Command {
	var format listFormat
	var file string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the skills that a user of a server started here could call",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return listCatalog(c, &format, "skills list", hostConfigPath(getenv, file),
				func(m catalogs) ([]catalog.Entry, error) { return m.skills.List(), m.skills.Err() })
		},
	}
	c.Flags().StringVar(&file, "config", "", configFlagUsage)
	format.register(c, "a JSON array")
	return group("skills", "Instructions that a user can call", c)
}

// catalogs is what was discovered.
type catalogs struct {
	modes  *catalog.Modes
	skills *catalog.Skills
}

// listCatalog prints one of the catalogs that a server started in this folder would serve. What hinders it goes to stderr behind
// the command's name.
func listCatalog(c *cobra.Command, format *listFormat, name, file string, pick func(catalogs) ([]catalog.Entry, error)) error {
	asJSON, err := format.asJSON()
	if err != nil {
		return err
	}
	log, err := logger(c.ErrOrStderr(), "info", nil)
	if err != nil {
		return err
	}
	host, err := config.Load(file)
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "# %s: %v\n", name, err)
		return &exitError{code: exitUsage}
	}
	cwd, err := os.Getwd()
	if err != nil {
		return failed(fmt.Errorf("working directory: %w", err))
	}
	modes, skills := discover(cwd, host, getenv, log)
	entries, failure := pick(catalogs{modes, skills})
	if failure != nil {
		fmt.Fprintf(c.ErrOrStderr(), "# %s: %v\n", name, failure)
	}
	if err := printEntries(c.OutOrStdout(), entries, asJSON); err != nil {
		return failed(err)
	}
	if failure != nil {
		return &exitError{code: exitFailure}
	}
	return nil
}

// printable is s on one line and without anything that a terminal would obey: names and descriptions come from files that others wrote.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, strings.Join(strings.Fields(s), " "))
}

// printEntries prints a bare JSON array on one line, or a table with the conflicts of names behind it.
func printEntries(w io.Writer, entries []catalog.Entry, asJSON bool) error {
	if asJSON {
		b, err := codec.Marshal(entries)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", b)
		return err
	}
	width := len("NAME")
	for _, e := range entries {
		width = max(width, utf8.RuneCountInString(printable(e.Name)))
	}
	var b, conflicts strings.Builder
	n := 0
	row := func(name, description, mark string) {
		fmt.Fprintf(&b, "%s%s  %s%s\n", name, strings.Repeat(" ", width-utf8.RuneCountInString(name)), description, mark)
	}
	row("NAME", "DESCRIPTION", "")
	for _, e := range entries {
		mark := ""
		if len(e.Shadowed) > 0 {
			n++
			mark = "  (!)"
			fmt.Fprintf(&conflicts, "  %s\n    runs:     %s\n", printable(e.Name), printable(e.Source))
			for _, s := range e.Shadowed {
				fmt.Fprintf(&conflicts, "    shadowed: %s\n", printable(s.Source))
			}
		}
		row(printable(e.Name), printable(e.Description), mark)
	}
	if n > 0 {
		fmt.Fprintf(&b, "\n(!) %d name conflict(s). The first source found for a name runs; the others are not used.\n%s", n, conflicts.String())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
