package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/commandcode"
)

// print prints a line for each fact, for people.
func (a *answers) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, text string) { fmt.Fprintf(t, "%s\t%s\n", name, printable(text)) }
	if i := a.who; i != nil {
		user := cmp.Or(i.Name, i.UserName, i.UserID, unknown)
		if i.UserName != "" && i.UserName != user {
			user += " (" + i.UserName + ")"
		}
		if i.Email != "" {
			user += " <" + i.Email + ">"
		}
		line("User", user)
		org := cmp.Or(i.OrgName, i.OrgLogin, i.OrgID, unknown)
		if i.OrgLogin != "" && i.OrgLogin != org {
			org += " (" + i.OrgLogin + ")"
		}
		if i.Personal {
			org = "none"
		}
		line("Organisation", org)
	}
	if p := a.plan; p != nil {
		id := p.ID
		if a.credits != nil {
			id = cmp.Or(id, a.credits.PlanID)
		}
		line("Plan", strings.Join([]string{cmp.Or(id, unknown), cmp.Or(p.Status, "status "+unknown)}, ", "))
		line("Period", a.period())
	}
	if c := a.credits; c != nil {
		text := "monthly " + dollars(c.Monthly) + ", purchased " + dollars(c.Purchased) + ", free " + dollars(c.Free)
		if c.BelowThreshold != nil && *c.BelowThreshold {
			text += ", which is low"
		}
		line("Credits left", text)
		line("Five hours", a.window(c.FiveHour, c.Limited))
		line("Week", a.window(c.Weekly, c.Limited))
	}
	if s := a.spent; s != nil {
		text := dollars(s.Cost)
		if a.plan != nil && !a.plan.Start.IsZero() {
			text += " since " + day(a.plan.Start)
		}
		if s.Turns != nil {
			text += fmt.Sprintf(", %d requests", *s.Turns)
		}
		if s.Tokens != nil {
			text += fmt.Sprintf(", %d tokens", *s.Tokens)
		}
		line("Used", text)
	}
	return t.Flush()
}

// dollars is an amount with every digit that was told.
func dollars(p pipeline.Price) string {
	if !p.Known() {
		return unknown
	}
	return "$" + p.String()
}

func day(at time.Time) string {
	if at.IsZero() {
		return unknown
	}
	return at.Local().Format("2 Jan 2006")
}

func (a *answers) period() string {
	p := a.plan
	if p.Start.IsZero() && p.End.IsZero() {
		return unknown
	}
	text := day(p.Start) + " to " + day(p.End)
	if p.CancelAtPeriod != nil && *p.CancelAtPeriod {
		text += ", and not renewed then"
	}
	return text
}

// window says how much of a window is used, and when it begins anew.
func (a *answers) window(w commandcode.Window, limited *bool) string {
	if limited != nil && !*limited && !w.Cap.Known() {
		return "not limited"
	}
	text := "used " + dollars(w.Used) + " of " + dollars(w.Cap)
	if w.Exceeded != nil && *w.Exceeded {
		text += ", exceeded"
	}
	switch left := w.ResetAt.Sub(a.at); {
	case w.Idle:
		return text + ", not begun"
	case w.ResetAt.IsZero():
		return text + ", reset " + unknown
	case left <= 0:
		return text + ", reset at " + w.ResetAt.Local().Format("Mon 2 Jan 15:04 MST")
	default:
		return text + ", resets " + w.ResetAt.Local().Format("Mon 2 Jan 15:04 MST") + " (in " + span(left) + ")"
	}
}

// span is a length of time in its two largest units.
func span(d time.Duration) string {
	minutes := int(max(d.Round(time.Minute), time.Minute) / time.Minute)
	days, hours, minutes := minutes/(24*60), minutes/60%24, minutes%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd %dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh %dm", hours, minutes)
	}
	return fmt.Sprintf("%dm", minutes)
}

// Parts of the JSON form.
type (
	accountUser struct {
		ID       string `json:"id,omitempty"`
		UserName string `json:"user_name,omitempty"`
		Name     string `json:"name,omitempty"`
		Email    string `json:"email,omitempty"`
	}
	accountOrg struct {
		ID    string `json:"id,omitempty"`
		Login string `json:"login,omitempty"`
		Name  string `json:"name,omitempty"`
	}
	accountPlan struct {
		ID                string `json:"id,omitempty"`
		Status            string `json:"status,omitempty"`
		PeriodStart       string `json:"period_start,omitempty"`
		PeriodEnd         string `json:"period_end,omitempty"`
		CancelAtPeriodEnd *bool  `json:"cancel_at_period_end,omitempty"`
	}
	accountCredits struct {
		Monthly        codec.RawMessage `json:"monthly,omitempty"`
		Purchased      codec.RawMessage `json:"purchased,omitempty"`
		Free           codec.RawMessage `json:"free,omitempty"`
		Threshold      codec.RawMessage `json:"threshold,omitempty"`
		BelowThreshold *bool            `json:"below_threshold,omitempty"`
	}
	accountWindows struct {
		Limited  *bool         `json:"limited,omitempty"`
		FiveHour accountWindow `json:"five_hour"`
		Weekly   accountWindow `json:"weekly"`
	}
	accountWindow struct {
		Used     codec.RawMessage `json:"used,omitempty"`
		Cap      codec.RawMessage `json:"cap,omitempty"`
		Exceeded *bool            `json:"exceeded,omitempty"`
		Begun    *bool            `json:"begun,omitempty"`
		ResetsAt string           `json:"resets_at,omitempty"`
	}
	accountUsage struct {
		TotalCost      codec.RawMessage `json:"total_cost,omitempty"`
		MonthlyCredits codec.RawMessage `json:"monthly_credits,omitempty"`
		Requests       *int64           `json:"requests,omitempty"`
		Tokens         *int64           `json:"tokens,omitempty"`
	}
	accountDocument struct {
		SchemaVersion int             `json:"schema_version"`
		Provider      string          `json:"provider"`
		FetchedAt     string          `json:"fetched_at"`
		User          *accountUser    `json:"user,omitempty"`
		Organisation  *accountOrg     `json:"organisation,omitempty"`
		Plan          *accountPlan    `json:"plan,omitempty"`
		Credits       *accountCredits `json:"credits,omitempty"`
		Windows       *accountWindows `json:"windows,omitempty"`
		Usage         *accountUsage   `json:"usage,omitempty"`
	}
)

// document is the JSON form. Amounts are numbers with every digit that was told, times are UTC.
func (a *answers) document() accountDocument {
	d := accountDocument{SchemaVersion: accountSchema, Provider: a.provider, FetchedAt: moment(a.at)}
	if i := a.who; i != nil {
		d.User = &accountUser{i.UserID, i.UserName, i.Name, i.Email}
		if org := (accountOrg{i.OrgID, i.OrgLogin, i.OrgName}); org != (accountOrg{}) {
			d.Organisation = &org
		}
	}
	if p := a.plan; p != nil {
		d.Plan = &accountPlan{p.ID, p.Status, moment(p.Start), moment(p.End), p.CancelAtPeriod}
	}
	if c := a.credits; c != nil {
		d.Credits = &accountCredits{amount(c.Monthly), amount(c.Purchased), amount(c.Free), amount(c.Threshold), c.BelowThreshold}
		d.Windows = &accountWindows{c.Limited, windowDocument(c.FiveHour), windowDocument(c.Weekly)}
	}
	if s := a.spent; s != nil {
		d.Usage = &accountUsage{amount(s.Cost), amount(s.MonthlyCredits), s.Turns, s.Tokens}
	}
	return d
}

func windowDocument(w commandcode.Window) accountWindow {
	d := accountWindow{Used: amount(w.Used), Cap: amount(w.Cap), Exceeded: w.Exceeded, ResetsAt: moment(w.ResetAt)}
	if begun := !w.Idle; w.Idle || !w.ResetAt.IsZero() {
		d.Begun = &begun
	}
	return d
}

// amount is a number that no float64 has touched; nil if it is unknown.
func amount(p pipeline.Price) codec.RawMessage {
	if !p.Known() {
		return nil
	}
	return codec.RawMessage(p.String())
}

// moment is a time as programs read it, "" if it is unknown.
func moment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
