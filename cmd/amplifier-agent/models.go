package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/routes/lists"
)

func modelsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "models",
		Short: "What can be asked",
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
		Args:  cobra.NoArgs,
	}
	c.AddCommand(modelsListCommand())
	return c
}

func modelsListCommand() *cobra.Command {
	var demo, asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the models that a server would serve",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := logger(c.ErrOrStderr(), "warning")
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), patience)
			defer cancel()
			u, err := openUpstreams(ctx, demo, getenv, log)
			if err != nil {
				return err
			}
			defer u.close()
			return printModels(c.OutOrStdout(), u.models.All(), asJSON)
		},
	}
	c.Flags().BoolVar(&demo, "demo", false, "ask the built-in gateway simulator")
	c.Flags().BoolVar(&asJSON, "json", false, "print the body of GET /v1/models")
	return c
}

func printModels(w io.Writer, models []pipeline.Served, asJSON bool) error {
	if asJSON {
		b, err := codec.MarshalIndent(lists.Of(models, time.Now()))
		if err != nil {
			return failed(err)
		}
		_, err = fmt.Fprintf(w, "%s\n", b)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tNAME\tPROVIDER\tCONTEXT")
	for _, m := range models {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\n", m.ID, m.Model.Name, m.Provider.Name(), m.Model.ContextTokens)
	}
	return t.Flush()
}
