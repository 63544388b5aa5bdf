package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/config"
	"amplifier-agent/pipeline/secret"
)

// maxKeyBytes bounds a key that is read from stdin.
const maxKeyBytes = 64 << 10

func authCommand() *cobra.Command {
	return group("auth", "Keys of providers, kept in credentials.json of the home folder", authSetCommand(), authListCommand(), authRemoveCommand())
}

func authSetCommand() *cobra.Command {
	var endpoint, host string
	c := &cobra.Command{
		Use:   "set PROVIDER [KEY]",
		Short: "Keep the key of a provider",
		Long: "Keep the key of a provider. Without KEY it is read from stdin, where neither the shell's history nor the list of processes has it.\n" +
			"An endpoint can be set without a key: then an empty one leaves the key that is there.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			module, key, address := args[0], "", secret.CleanKey(endpoint)
			if address == "" {
				address = secret.CleanKey(host)
			}
			needsKey, err := config.CheckCredentialModule(module)
			if err != nil {
				return err
			}
			home, err := config.Home(getenv)
			if err != nil {
				return err
			}
			switch {
			case len(args) == 2:
				key = args[1]
			case needsKey || address == "":
				if key, err = readKey(c.Context(), c.InOrStdin(), c.ErrOrStderr(), "Key for "+module+": "); err != nil {
					return err
				}
			}
			if err := config.SetCredential(home, module, key, address); err != nil {
				return failed(err)
			}
			if err := printLine(c.OutOrStdout(), module+": written to "+config.CredentialFile(home)); err != nil {
				return err
			}
			return stillFrom(c.ErrOrStderr(), module, home, config.SourceEnv)
		},
	}
	c.Flags().StringVar(&endpoint, "endpoint", "", "base URL of providers that have one of their own (azure-openai, ollama)")
	c.Flags().StringVar(&host, "host", "", "the same, as Ollama calls it")
	c.MarkFlagsMutuallyExclusive("endpoint", "host")
	return c
}

func authRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove PROVIDER",
		Short: "Forget the key and endpoint of a provider",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := config.Home(getenv)
			if err != nil {
				return err
			}
			removed, err := config.RemoveCredential(home, args[0])
			if err != nil {
				return failed(err)
			}
			if !removed {
				return failed(fmt.Errorf("%s has no entry %q: amplifier-agent auth list tells what there is", config.CredentialFile(home), args[0]))
			}
			if err := printLine(c.OutOrStdout(), args[0]+": removed from "+config.CredentialFile(home)); err != nil {
				return err
			}
			return stillFrom(c.ErrOrStderr(), args[0], home, config.SourceEnv, config.SourceFile)
		},
	}
}

// stillFrom says that a credential comes from somewhere else than credentials.json, whose change then does not show.
func stillFrom(w io.Writer, module, home string, sources ...config.Source) error {
	c, err := config.Resolve(module, getenv, home, userHome())
	if err != nil {
		return nil // there is none, or the module is not ours
	}
	for _, s := range sources {
		if c.Source == s {
			return printLine(w, "note: "+module+" takes its credentials from "+origin(c))
		}
	}
	return nil
}

// userHome is the user's folder, "" if there is none.
func userHome() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

// origin is where a credential comes from, in words.
func origin(c config.Credential) string {
	switch c.Source {
	case config.SourceEnv:
		return "$" + c.Variable
	case config.SourceFile:
		return c.Path
	case config.SourceDefault:
		return "the default address, which counts only if $" + c.Variable + " or a host config names it"
	}
	return "nowhere: set $" + c.Variable
}

// shownURL is a URL without what may be secret in it.
func shownURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return ""
	case err != nil || u.Host == "":
		return "(no URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func authListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "Tell which providers have credentials, and from where",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.Home(getenv)
			if err != nil {
				return err
			}
			all := config.ResolveAll(getenv, home, userHome())
			for _, w := range all.Warnings {
				fmt.Fprintf(c.ErrOrStderr(), "amplifier-agent: %s\n", w)
			}
			if asJSON {
				err = printCredentialsJSON(c.OutOrStdout(), all)
			} else {
				err = printCredentials(c.OutOrStdout(), all)
			}
			if err != nil {
				return failed(err)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object on one line; its keys are masked")
	return c
}

func printCredentials(w io.Writer, all config.Credentials) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROVIDER\tSOURCE\tKEY\tENDPOINT\tFROM")
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return printable(s)
	}
	for _, c := range all.List {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Module, c.Source, dash(c.MaskedKey()), dash(shownURL(c.Endpoint)), printable(origin(c)))
	}
	for _, name := range all.Unknown {
		fmt.Fprintf(t, "%s\tfile\t-\t-\tan entry that this program does not read\n", printable(name))
	}
	return t.Flush()
}

func printCredentialsJSON(w io.Writer, all config.Credentials) error {
	type row struct {
		config.Credential
		Fields   []string `json:"fields"`
		Key      string   `json:"key,omitempty"` // masked
		Endpoint string   `json:"endpoint,omitempty"`
	}
	out := struct {
		SchemaVersion int      `json:"schema_version"`
		Providers     []row    `json:"providers"`
		Unknown       []string `json:"unknown"` // entries that this program does not read
	}{SchemaVersion: 1, Providers: []row{}, Unknown: append([]string{}, all.Unknown...)}
	for _, c := range all.List {
		out.Providers = append(out.Providers, row{c, c.Fields(), c.MaskedKey(), shownURL(c.Endpoint)})
	}
	b, err := codec.Marshal(out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// readKey reads a key: a line of a terminal, which does not show it, or all that a pipe has.
func readKey(ctx context.Context, in io.Reader, ask io.Writer, question string) (string, error) {
	ctx, stop := signal.NotifyContext(ctx, endSignals()...) // or the terminal would stay silent
	defer stop()
	restore, terminal := func() {}, false
	if f, ok := in.(*os.File); ok {
		restore, terminal = silence(f)
	}
	defer restore()
	type input struct {
		text string
		err  error
	}
	read := make(chan input, 1)
	limited := io.LimitReader(in, maxKeyBytes+1)
	if terminal {
		fmt.Fprint(ask, question)
		defer fmt.Fprintln(ask)
	}
	go func() { // it is left behind if the user gives up: the process ends then
		if terminal {
			line, err := bufio.NewReader(limited).ReadString('\n')
			if errors.Is(err, io.EOF) {
				err = nil
			}
			read <- input{line, err}
			return
		}
		data, err := io.ReadAll(limited)
		read <- input{string(data), err}
	}()
	select {
	case <-ctx.Done():
		return "", failed(errors.New("interrupted before there was a key"))
	case i := <-read:
		if i.err != nil {
			return "", failed(fmt.Errorf("read the key: %w", i.err))
		}
		if len(i.text) > maxKeyBytes {
			return "", failed(fmt.Errorf("read the key: it is longer than %d bytes: is it one?", maxKeyBytes))
		}
		return strings.TrimSpace(i.text), nil
	}
}
