package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"amplifier-agent/upstream/commandcode"
)

const (
	accountPatience = 15 * time.Second // with one question
	accountSchema   = 1
	unknown         = "unknown"
)

// What there is to ask of an account.
const (
	askWhoami  = "whoami"
	askCredits = "credits"
	askUsage   = "usage"
)

func accountCommand() *cobra.Command {
	var q accountQuery
	c := &cobra.Command{
		Use:   "account [whoami|credits|usage]",
		Short: "Tell whose key it is, what is left to spend and what was spent",
		Long: "Ask the Command Code gateway about the account of the key: who (whoami), plan, credits and the windows that bound spending\n" +
			"(credits), and what was used in this period (usage); without an argument all of it. No turn is made, and nothing is spent.\n\n" +
			"It ends with 0 if any of it was answered, 1 if nothing was, and 2 if the configuration does not say whom to ask.",
		ValidArgs: []string{askWhoami, askCredits, askUsage},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(c.ValidArgs, args[0]) {
				return fmt.Errorf("account %s: use one of %s, or nothing for all", strings.Join(args, " "), strings.Join(c.ValidArgs, ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			q.parts = c.ValidArgs
			if len(args) > 0 {
				q.parts = args
			}
			q.stdout, q.stderr = c.OutOrStdout(), c.ErrOrStderr()
			return q.run(c.Context())
		},
	}
	c.Flags().BoolVar(&q.demo, "demo", false, "ask the built-in gateway simulator")
	c.Flags().StringVar(&q.file, "config", "", configFlagUsage)
	c.Flags().StringVar(&q.provider, "provider", "", "the provider of the host config to ask, if several are of the module "+commandcode.Name)
	c.Flags().BoolVar(&q.json, "json", false, "print one JSON document; amounts keep their digits, and what is unknown is left out")
	return c
}

// accountQuery is what is asked for.
type accountQuery struct {
	demo, json     bool
	file, provider string
	parts          []string
	stdout, stderr io.Writer
}

func (q *accountQuery) run(ctx context.Context) error {
	s, err := openSources(q.file, q.demo, q.stderr)
	if err != nil {
		return err
	}
	which, err := q.pick(s)
	if err != nil {
		return err
	}
	u := new(upstreams)
	defer u.close()
	cfg, err := overlay(s, which.module, which.cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", which.id, err)
	}
	cc, err := commandCode(s, u, which.id, cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", which.id, err)
	}
	account, err := commandcode.NewAccount(cc)
	if err != nil {
		return fmt.Errorf("%s: %w", which.id, err)
	}
	defer account.Close()
	a := answers{provider: which.id, at: time.Now()}
	answered := a.ask(ctx, account, q.parts, func(what string, err error) {
		fmt.Fprintf(q.stderr, "# account: %s: %s\n", what, printable(s.mask.String(err.Error())))
	})
	if !answered {
		return &exitError{code: exitFailure}
	}
	if q.json {
		err = printIndented(q.stdout, a.document())
	} else {
		err = a.print(q.stdout)
	}
	if err != nil {
		return failed(err)
	}
	return nil
}

// pick is the provider whose account is meant.
func (q *accountQuery) pick(s *sources) (use, error) {
	var list []use
	var ids []string
	if s.demo || len(s.host.Providers) == 0 {
		list = []use{{id: commandcode.Name, module: commandcode.Name}}
	} else {
		list = slices.DeleteFunc(s.uses(), func(u use) bool { return u.module != commandcode.Name })
	}
	for _, u := range list {
		ids = append(ids, u.id)
		if u.id == q.provider {
			return u, nil
		}
	}
	switch {
	case len(list) == 0:
		return use{}, fmt.Errorf("%s: none of its providers is of the module %s, and the others tell nothing of accounts", s.host.Path, commandcode.Name)
	case q.provider != "":
		return use{}, fmt.Errorf("no provider of the module %s is called %q: use %s", commandcode.Name, q.provider, strings.Join(ids, " or "))
	case len(list) > 1:
		return use{}, fmt.Errorf("several providers are of the module %s: choose one with --provider: %s", commandcode.Name, strings.Join(ids, ", "))
	}
	return list[0], nil
}

// answers are what the gateway has told. What was not asked, or not answered, is nil.
type answers struct {
	provider string
	at       time.Time
	who      *commandcode.Identity
	plan     *commandcode.Plan
	credits  *commandcode.Credits
	spent    *commandcode.Spent
}

// ask asks for parts, and for what these need to be asked with. tell hears what failed. It reports whether one of parts was answered.
func (a *answers) ask(ctx context.Context, account *commandcode.Account, parts []string, tell func(what string, err error)) (answered bool) {
	var org string
	var since time.Time
	who, err := bounded(ctx, account.Whoami)
	if err != nil {
		tell(askWhoami, err)
	} else {
		org = who.OrgID
	}
	if slices.Contains(parts, askWhoami) && err == nil {
		a.who, answered = &who, true
	}
	credits, usage := slices.Contains(parts, askCredits), slices.Contains(parts, askUsage)
	if !credits && !usage {
		return answered
	}
	var plan commandcode.Plan
	var left commandcode.Credits
	var planErr, leftErr error
	var wait sync.WaitGroup
	wait.Go(func() {
		plan, planErr = bounded(ctx, func(ctx context.Context) (commandcode.Plan, error) { return account.Plan(ctx, org) })
	})
	if credits {
		wait.Go(func() {
			left, leftErr = bounded(ctx, func(ctx context.Context) (commandcode.Credits, error) { return account.Credits(ctx, org) })
		})
	}
	wait.Wait()
	if planErr != nil {
		tell("plan", planErr)
	} else {
		a.plan, since, answered = &plan, plan.Start, answered || credits
	}
	switch {
	case leftErr != nil:
		tell(askCredits, leftErr)
	case credits:
		a.credits, answered = &left, true
	}
	if !usage {
		return answered
	}
	spent, err := bounded(ctx, func(ctx context.Context) (commandcode.Spent, error) { return account.Spent(ctx, org, since) })
	if err != nil {
		tell(askUsage, err)
		return answered
	}
	a.spent = &spent
	return true
}

// bounded bounds how long the gateway may take.
func bounded[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, accountPatience, fmt.Errorf("no answer within %s", accountPatience))
	defer cancel()
	return ask(ctx)
}
