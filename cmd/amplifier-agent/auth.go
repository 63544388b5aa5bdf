package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
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
	var endpoint, host, file string
	c := &cobra.Command{
		Use:   "set PROVIDER [KEY]",
		Short: "Keep the key of a provider",
		Long: "Keep the key of a provider: of a kind of provider, for all that have none of their own, or of one that the host config names.\n" +
			"Without KEY it is read from stdin, where neither the shell's history nor the list of processes has it.\n" +
			"An endpoint can be set without a key: then an empty one leaves the key that is there.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			id, key, address := args[0], "", secret.CleanKey(endpoint)
			if address == "" {
				address = secret.CleanKey(host)
			}
			conf, confErr := config.Load(hostConfigPath(getenv, file))
			if confErr != nil {
				conf = config.Default() // it is not needed for a module
			}
			module, needsKey, err := config.CredentialModule(id, conf.Providers)
			if err != nil {
				return cmp.Or(confErr, err)
			}
			home, err := config.Home(getenv)
			if err != nil {
				return err
			}
			switch {
			case len(args) == 2:
				key = args[1]
			case needsKey || address == "":
				if key, err = readKey(c.Context(), c.InOrStdin(), c.ErrOrStderr(), "Key for "+id+": "); err != nil {
					return err
				}
			}
			if err := config.SetCredential(home, id, module, key, address); err != nil {
				return failed(err)
			}
			if err := printLine(c.OutOrStdout(), id+": written to "+config.CredentialFile(home)); err != nil {
				return err
			}
			return stillFrom(c.ErrOrStderr(), id, conf, home, config.SourceConfig, config.SourceEnv)
		},
	}
	c.Flags().StringVar(&endpoint, "endpoint", "", "base URL of providers that have one of their own (azure-openai, ollama)")
	c.Flags().StringVar(&host, "host", "", "the same, as Ollama calls it")
	c.Flags().StringVar(&file, "config", "", configFlagUsage)
	c.MarkFlagsMutuallyExclusive("endpoint", "host")
	return c
}

func authRemoveCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
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
			conf, err := config.Load(hostConfigPath(getenv, file))
			if err != nil {
				conf = config.Default() // it is only for the note
			}
			return stillFrom(c.ErrOrStderr(), args[0], conf, home, config.SourceConfig, config.SourceEnv, config.SourceFile)
		},
	}
	c.Flags().StringVar(&file, "config", "", configFlagUsage)
	return c
}

// stillFrom says that a credential comes from somewhere else than the entry of credentials.json that was changed, which then does not
// show.
func stillFrom(w io.Writer, id string, conf *config.Host, home string, sources ...config.Source) error {
	for _, c := range config.ResolveAll(getenv, home, userHome(), conf.Providers).List {
		if c.ID == id && slices.Contains(sources, c.Source) {
			return printLine(w, "note: "+id+" takes its credentials from "+origin(c))
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
	case config.SourceConfig:
		return "the host config"
	case config.SourceEnv:
		return "$" + c.Variable
	case config.SourceFile:
		if c.Entry != "" {
			return c.Path + ", entry " + c.Entry
		}
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
	var file string
	c := &cobra.Command{
		Use:   "list",
		Short: "Tell which providers have credentials, and from where",
		Long: "Tell which kinds of providers have credentials, and from where, and then those that the host config names.\n" +
			"Keys are masked. Who has none says what to set.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.Home(getenv)
			if err != nil {
				return err
			}
			conf, err := config.Load(hostConfigPath(getenv, file))
			if err != nil {
				fmt.Fprintf(c.ErrOrStderr(), "amplifier-agent: %v: its providers are left out\n", err)
				conf = config.Default()
			}
			all := config.ResolveAll(getenv, home, userHome(), conf.Providers)
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
	c.Flags().StringVar(&file, "config", "", configFlagUsage)
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
		name := c.ID
		if c.ID != c.Module {
			name += " (" + c.Module + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", printable(name), c.Source, dash(c.MaskedKey()), dash(shownURL(c.Endpoint)), printable(origin(c)))
	}
	for _, name := range all.Unknown {
		fmt.Fprintf(t, "%s\tfile\t-\t-\tan entry that nobody reads: no kind of provider is called so, nor one of the host config (--config)\n", printable(name))
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
