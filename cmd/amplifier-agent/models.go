package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/config"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/routes/lists"
	"amplifier-agent/upstream"
)

// What a provider can be when it is asked for its models.
const (
	listedOK       = "ok"
	listedNoKey    = "credentials_missing"
	listedNotBuilt = "module_not_installed"
	listedError    = "error"
)

const modelsSchema = 1

func modelsCommand() *cobra.Command {
	return group("models", "What can be asked", modelsListCommand())
}

func modelsListCommand() *cobra.Command {
	var q modelsQuery
	var format listFormat
	c := &cobra.Command{
		Use:   "list",
		Short: "List the models of the providers",
		Long: "List the models of the providers that the host config names, or else of each kind of provider that there is; those without\n" +
			"credentials are not asked. With --provider it is one, with all that is known of its models.\n\n" +
			"Ids are those of the provider. Where a server serves a model under another one, since two providers have it or since the provider\n" +
			"sells the models of others, that is shown too (served_as); with --provider it is what a server with this provider alone would do.\n\n" +
			"--latest keeps the newest model of each family. A family are the ids of one vendor that differ in versions and dates only, such\n" +
			"as claude-sonnet-4-5 and claude-sonnet-5; sizes (70b) do not count as versions. The newest has the highest version, and of those\n" +
			"the latest date. An id with neither is a family of its own. The list that a server serves has all models.\n\n" +
			"It ends with 0 if a provider has answered, 1 if --provider is none, and 2 if there was no answer, or the host config is wrong.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if q.json, err = format.asJSON(); err != nil {
				return err
			}
			q.one = c.Flags().Changed("provider")
			q.stdout, q.stderr = c.OutOrStdout(), c.ErrOrStderr()
			return q.run(c.Context())
		},
	}
	c.Flags().BoolVar(&q.demo, "demo", false, "ask the built-in gateway simulator")
	c.Flags().StringVar(&q.file, "config", "", configFlagUsage)
	c.Flags().StringVar(&q.provider, "provider", "", "ask this one only: an id of the host config, or a kind of provider")
	c.Flags().BoolVar(&q.latest, "latest", false, "only the newest model of each family")
	format.register(c, "one JSON document")
	return c
}

// modelsQuery is what is asked for.
type modelsQuery struct {
	demo, json, latest, one bool
	file, provider          string
	stdout, stderr          io.Writer
}

// listing is the answer of one provider.
type listing struct {
	Provider string        `json:"provider"`
	Status   string        `json:"status"`
	Error    string        `json:"error,omitempty"`
	Models   []listedModel `json:"models"`
}

// listedModel has the words of GET /v1/models, where they are the provider's.
type listedModel struct {
	ID           string           `json:"id"` // the provider's own
	ServedAs     string           `json:"served_as,omitempty"`
	DisplayName  string           `json:"display_name"`
	Limit        *lists.Limit     `json:"limit,omitempty"`
	Capabilities []string         `json:"capabilities,omitempty"`
	Reasoning    *bool            `json:"reasoning,omitempty"`
	Defaults     codec.RawMessage `json:"defaults,omitempty"`
}

func (q *modelsQuery) run(ctx context.Context) error {
	s, err := openSources(q.file, q.demo, q.stderr)
	if err != nil {
		return err
	}
	uses := s.uses()
	table := s.table(uses)
	if q.one {
		i := slices.IndexFunc(table, func(u use) bool { return u.id == q.provider })
		if i < 0 {
			var ids []string
			for _, u := range table {
				ids = append(ids, u.id)
			}
			return failed(fmt.Errorf("no provider is called %q: use one of %s", q.provider, strings.Join(ids, ", ")))
		}
		asked := table[i]
		used := slices.ContainsFunc(uses, func(u use) bool { return u.id == asked.id })
		table, uses = []use{asked}, nil
		c, _ := config.Resolve(config.Provider{ID: asked.id, Module: asked.module}, s.env, s.home, userHome())
		if used || !s.ownKey(c.Key) { // it was named: so it is asked, or says itself what it lacks
			uses = table
		}
	}
	u := new(upstreams)
	defer u.close()
	answers := q.ask(ctx, s, u, uses, table)
	named := q.one || len(s.host.Providers) > 0 || s.demo
	good := false
	for _, a := range answers {
		good = good || a.Status == listedOK
		switch {
		case a.Status == listedOK && len(a.Models) == 0:
			fmt.Fprintf(q.stderr, "# %s: it lists no models\n", a.Provider)
		case a.Status != listedOK && (named || a.Status != listedNoKey):
			fmt.Fprintf(q.stderr, "# %s: %s\n", a.Provider, a.Error)
		}
	}
	if !good && len(uses) == 0 {
		fmt.Fprintf(q.stderr, "# models list: %v\n", errNoProvider)
	}
	if err := q.print(answers); err != nil {
		return failed(err)
	}
	if !good {
		return &exitError{code: exitUsage}
	}
	return nil
}

// openSources are the sources of a command that asks providers. What it says goes to stderr.
func openSources(file string, demo bool, stderr io.Writer) (*sources, error) {
	s := &sources{demo: demo, env: getenv, own: cmp.Or(getenv(envPrefix+"API_KEY"), defaultKey), mask: new(secret.Mask)}
	var err error
	if s.log, err = logger(stderr, "warning", s.mask); err != nil {
		return nil, err
	}
	if s.host, err = config.Load(hostConfigPath(getenv, file)); err != nil {
		return nil, err
	}
	s.home, err = config.Home(getenv)
	return s, err
}

// table are the providers in the order in which they are told of: those of a server, or if nobody has named any, each module that
// can have credentials.
func (s *sources) table(uses []use) []use {
	if s.demo || len(s.host.Providers) > 0 {
		return uses
	}
	var list []use
	for _, c := range config.ResolveAll(s.env, s.home, userHome(), nil).List {
		list = append(list, use{id: c.Module, module: c.Module})
	}
	return list
}

// ask asks the providers of uses, and returns the answers in the order of table; what is only in the latter has no credentials.
func (q *modelsQuery) ask(ctx context.Context, s *sources, u *upstreams, uses, table []use) []listing {
	listings := upstream.List(ctx, s.open(u, uses)...)
	models := map[string][]pipeline.Served{}
	for _, m := range upstream.Register(listings).All() {
		models[m.Provider.Name()] = append(models[m.Provider.Name()], m)
	}
	answers := make([]listing, len(table))
	for i, t := range table {
		a := listing{Provider: t.id, Status: listedNoKey, Error: s.lacks(t), Models: []listedModel{}}
		if j := slices.IndexFunc(uses, func(u use) bool { return u.id == t.id }); j >= 0 {
			a.Status, a.Error = listingStatus(listings[j].Err), ""
			if listings[j].Err != nil {
				a.Error = s.mask.String(listings[j].Err.Error())
			}
			served := models[t.id]
			if q.latest {
				served = newest(served, func(m pipeline.Served) string { return m.Model.ID })
			}
			a.Models = append(a.Models, listedModels(served)...)
		}
		answers[i] = a
	}
	return answers
}

// lacks says why a provider is not asked.
func (s *sources) lacks(u use) string {
	c, err := config.Resolve(config.Provider{ID: u.id, Module: u.module, Config: u.cfg}, s.env, s.home, userHome())
	switch {
	case err != nil:
		return s.mask.String(err.Error())
	case s.ownKey(c.Key):
		return "no credentials: $" + c.Variable + " holds the key of this server's own clients"
	}
	return "no credentials: it is at " + origin(c) // a local address that nobody named
}

func listingStatus(err error) string {
	switch {
	case err == nil:
		return listedOK
	case errors.Is(err, config.ErrNoCredential):
		return listedNoKey
	case errors.Is(err, errNotBuilt):
		return listedNotBuilt
	}
	return listedError
}

func listedModels(served []pipeline.Served) []listedModel {
	list := make([]listedModel, len(served))
	for i, m := range lists.Of(served, time.Time{}).Data { // the same words as over HTTP
		list[i] = listedModel{ID: served[i].Model.ID, DisplayName: m.DisplayName, Limit: m.Limit, Capabilities: m.Capabilities, Reasoning: m.Reasoning, Defaults: m.Defaults}
		if m.ID != list[i].ID {
			list[i].ServedAs = m.ID
		}
	}
	return list
}
