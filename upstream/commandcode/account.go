package commandcode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

const (
	maxAccountBytes = 1 << 20 // of an answer about an account

	// Moments come in milliseconds where an account is told of, and in seconds elsewhere. A number below this one, which would be
	// of the year 1973, is in seconds.
	minMillis = 100_000_000_000
	maxMillis = 100_000_000_000_000 // of the year 5138: nobody means more
)

// Account asks the gateway about the account that a key belongs to. All surfaces share it, so none need be chosen. It is safe for
// concurrent use. Its errors say what was refused, without the key. What an answer does not tell is unknown, which is the zero value
// or nil, and never a zero that the gateway did not say.
type Account struct {
	t      *upstream.Transport
	header [][2]string
	mask   *secret.Mask
}

// NewAccount returns the account of c.Key at c.BaseURL. Of the rest of c only CAFile, UserAgent, Version and Mask matter.
func NewAccount(c Config) (*Account, error) {
	t, err := upstream.NewTransport(upstream.TransportConfig{BaseURL: cmp.Or(c.BaseURL, DefaultBaseURL), CAFile: c.CAFile})
	if err != nil {
		return nil, fmt.Errorf("%w (set COMMANDCODE_BASE_URL)", err)
	}
	key := secret.CleanKey(c.Key)
	if key == "" {
		return nil, errors.New("no key: export COMMANDCODE_API_KEY, or try the command without one: --demo")
	}
	a := &Account{t: t, mask: c.Mask}
	if a.mask == nil {
		a.mask = new(secret.Mask)
	}
	a.mask.Add(key)
	a.header = [][2]string{
		{"Authorization", "Bearer " + key},
		{"Accept-Encoding", "identity"},
		{"User-Agent", cmp.Or(c.UserAgent, "amplifier-agent")},
		{"x-command-code-version", cmp.Or(c.Version, DefaultVersion)},
	}
	return a, nil
}

// Close closes the idle connections.
func (a *Account) Close() { a.t.Close() }

// Identity is whose key it is. OrgID is what the other questions are to be asked with.
type Identity struct {
	UserID, UserName, Name, Email string
	OrgID, OrgLogin, OrgName      string
	Personal                      bool // the gateway says that there is no organisation
}

// Whoami tells whose key it is.
func (a *Account) Whoami(ctx context.Context) (i Identity, err error) {
	o, err := a.get(ctx, "/alpha/whoami", "limits", "1")
	if err != nil {
		return i, err
	}
	user, org := o.object("user"), o.object("org")
	return Identity{
		UserID: user.text("id"), UserName: user.text("userName"), Name: user.text("name"), Email: user.text("email"),
		OrgID: org.text("id"), OrgLogin: org.text("login"), OrgName: org.text("name"),
		Personal: string(o["org"]) == "null",
	}, nil
}

// Plan is what is paid for, and for how long.
type Plan struct {
	ID, Status     string
	Start, End     time.Time // of the period
	CancelAtPeriod *bool     // it ends with the period
}

// Plan tells the subscription.
func (a *Account) Plan(ctx context.Context, orgID string) (p Plan, err error) {
	o, err := a.get(ctx, "/alpha/billing/subscriptions", "orgId", orgID)
	if err != nil {
		return p, err
	}
	o = o.object("data")
	p = Plan{ID: o.text("planId"), Status: o.text("status"), CancelAtPeriod: o.flag("cancelAtPeriodEnd")}
	p.Start, _ = o.moment("currentPeriodStart")
	p.End, _ = o.moment("currentPeriodEnd")
	return p, nil
}

// Credits are what is left to spend, in US dollars, and the windows that bound how fast.
type Credits struct {
	Monthly, Purchased, Free pipeline.Price
	Threshold                pipeline.Price // below which the gateway warns
	BelowThreshold           *bool
	PlanID                   string // if it is told here as well
	Limited                  *bool  // there are windows at all
	FiveHour, Weekly         Window
}

// Window bounds what can be spent in a stretch of time that begins with the first turn in it.
type Window struct {
	Used, Cap pipeline.Price
	Exceeded  *bool
	ResetAt   time.Time
	Idle      bool // it has not begun
}

// Credits tells what is left.
func (a *Account) Credits(ctx context.Context, orgID string) (c Credits, err error) {
	o, err := a.get(ctx, "/alpha/billing/credits", "orgId", orgID)
	if err != nil {
		return c, err
	}
	credits, windows := o.object("credits"), o.object("windowLimits")
	return Credits{
		Monthly: credits.amount("monthlyCredits"), Purchased: credits.amount("purchasedCredits"), Free: credits.amount("freeCredits"),
		Threshold: credits.amount("creditThreshold"), BelowThreshold: credits.flag("belowThreshold"), PlanID: credits.text("planId"),
		Limited: windows.flag("limited"), FiveHour: windows.object("fiveHour").window(), Weekly: windows.object("weekly").window(),
	}, nil
}

// Spent is what was used since a moment.
type Spent struct {
	Cost           pipeline.Price
	MonthlyCredits pipeline.Price // how much of Cost the plan's credits paid
	Turns, Tokens  *int64
}

// Spent tells what was used since the start of the plan's period, or since whenever the gateway counts from if since is zero.
func (a *Account) Spent(ctx context.Context, orgID string, since time.Time) (s Spent, err error) {
	from := ""
	if !since.IsZero() {
		from = since.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	o, err := a.get(ctx, "/alpha/usage/summary", "orgId", orgID, "since", from)
	if err != nil {
		return s, err
	}
	return Spent{
		Cost: o.amount("totalCost"), MonthlyCredits: o.amount("totalMonthlyCredits"), Turns: o.count("totalCount"), Tokens: o.count("totalTokens"),
	}, nil
}

// get asks a question. parameters are names and values; one without a value is left out.
func (a *Account) get(ctx context.Context, path string, parameters ...string) (o object, err error) {
	query := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			query.Set(parameters[i], parameters[i+1])
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	refuse := func(r *upstream.Reply) error {
		e, f := upstream.Refusal(r, a.mask)
		explain(e, f)
		return e
	}
	if err = a.t.Get(ctx, &upstream.Call{Method: "GET", Path: path, Header: a.header}, maxAccountBytes, &o, refuse); err != nil {
		return nil, err
	}
	if ok := o.flag("success"); ok != nil && !*ok { // a refusal that came with status 200
		var f upstream.Fault
		var s codec.Scanner
		s.Reset(o["error"])
		f.Read(&s)
		e := f.Err(a.mask)
		explain(e, &f)
		return nil, e
	}
	return o, nil
}

// object is a JSON object of which nothing is sure: neither that a member is there nor what it is. A nil one has none.
type object map[string]codec.RawMessage

func (o object) object(name string) (inner object) {
	if codec.Unmarshal(o[name], &inner) != nil {
		return nil
	}
	return inner
}

func (o object) text(name string) (s string) {
	if codec.Unmarshal(o[name], &s) != nil {
		return ""
	}
	return s
}

func (o object) flag(name string) (b *bool) {
	if codec.Unmarshal(o[name], &b) != nil {
		return nil
	}
	return b
}

// number is a number as it is spelt, or a text that may be one.
func (o object) number(name string) string {
	if s := o.text(name); s != "" {
		return s
	}
	return string(o[name])
}

func (o object) amount(name string) pipeline.Price {
	p, _ := pipeline.ParsePrice(o.number(name)) // what is none is unknown
	return p
}

func (o object) count(name string) *int64 {
	d := o.amount(name).Decimal()
	if d == nil || !d.IsInteger() || !d.BigInt().IsInt64() {
		return nil
	}
	n := d.IntPart()
	return &n
}

// moment reads a number, or a text in the form of RFC 3339. none says that the number is 0.
func (o object) moment(name string) (at time.Time, none bool) {
	if at, err := time.Parse(time.RFC3339, o.text(name)); err == nil {
		return at, false
	}
	switch n := o.count(name); {
	case n == nil || *n < 0 || *n > maxMillis:
		return time.Time{}, false
	case *n == 0:
		return time.Time{}, true
	case *n < minMillis:
		return time.Unix(*n, 0), false
	default:
		return time.UnixMilli(*n), false
	}
}

func (o object) window() Window {
	w := Window{Used: o.amount("used"), Cap: o.amount("cap"), Exceeded: o.flag("exceeded")}
	w.ResetAt, w.Idle = o.moment("resetAt")
	return w
}
