package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"amplifier-agent/codec"
)

const (
	modelsInCell  = 3 // of a provider, in the table of all of them
	nothingInCell = "—"
)

func (q *modelsQuery) print(answers []listing) error {
	at := time.Now().UTC().Format(time.RFC3339)
	switch {
	case q.json && q.one:
		return printIndented(q.stdout, struct {
			SchemaVersion int           `json:"schema_version"`
			Provider      string        `json:"provider"`
			FetchedAt     string        `json:"fetched_at"`
			Models        []listedModel `json:"models"`
		}{modelsSchema, answers[0].Provider, at, answers[0].Models})
	case q.json:
		return printIndented(q.stdout, struct {
			SchemaVersion int       `json:"schema_version"`
			FetchedAt     string    `json:"fetched_at"`
			Results       []listing `json:"results"`
		}{modelsSchema, at, answers})
	case q.one && answers[0].Status != listedOK:
		return nil // stderr has it
	case q.one:
		return printModels(q.stdout, answers[0].Models)
	}
	return printProviders(q.stdout, answers)
}

// printIndented prints one JSON document for people and programs.
func printIndented(w io.Writer, v any) error {
	b, err := codec.MarshalIndent(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// printModels prints a row a model.
func printModels(w io.Writer, models []listedModel) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	elsewhere := slices.ContainsFunc(models, func(m listedModel) bool { return m.ServedAs != "" })
	row := func(cells ...string) {
		if !elsewhere {
			cells = cells[:len(cells)-1]
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("ID", "NAME", "CONTEXT", "CAPABILITIES", "SERVED AS")
	for _, m := range models {
		context := "-" // unknown
		if m.Limit != nil && m.Limit.Context > 0 {
			context = fmt.Sprint(m.Limit.Context)
		}
		row(printable(m.ID), printable(m.DisplayName), context, cmp.Or(printable(strings.Join(m.Capabilities, ",")), "-"), cmp.Or(printable(m.ServedAs), "-"))
	}
	return t.Flush()
}

// printProviders prints a row a provider, with its first models.
func printProviders(w io.Writer, answers []listing) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	elsewhere := slices.ContainsFunc(answers, func(a listing) bool { return len(a.servedAs()) > 0 })
	row := func(cells ...string) {
		if !elsewhere {
			cells = cells[:len(cells)-1]
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("PROVIDER", "MODELS", "SERVED AS")
	cut := false
	for _, a := range answers {
		models := make([]string, len(a.Models))
		for i, m := range a.Models {
			models[i] = m.ID
		}
		text := cell(models)
		if a.Status != listedOK {
			text = fmt.Sprintf("%s (%s)", nothingInCell, a.Status)
		} else if len(models) > modelsInCell {
			cut = true
		}
		row(printable(a.Provider), text, cell(a.servedAs()))
	}
	if err := t.Flush(); err != nil || !cut {
		return err
	}
	_, err := fmt.Fprintln(w, "\n--provider PROVIDER lists all models of one.")
	return err
}

// servedAs are the ids under which models are served that the provider calls otherwise.
func (a listing) servedAs() (ids []string) {
	for _, m := range a.Models {
		if m.ServedAs != "" {
			ids = append(ids, m.ServedAs)
		}
	}
	return ids
}

// cell is the beginning of a list.
func cell(ids []string) string {
	if len(ids) == 0 {
		return nothingInCell
	}
	text := printable(strings.Join(ids[:min(len(ids), modelsInCell)], ", "))
	if len(ids) > modelsInCell {
		text += fmt.Sprintf(", … (%d total)", len(ids))
	}
	return text
}
