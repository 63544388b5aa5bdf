package commandcode

import (
	"net/http"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

// meaning is what words of the gateway mean where its status and code do not say it, and what to do about them.
type meaning struct {
	status int      // with which they come; 0 for any
	words  []string // one of which is said; none for any
	code   pipeline.Code
	as     int  // the status that fits; 0 for the one that came
	retry  bool // it passes
	advice string
}

// notRecognized is said of a wrong model.
const notRecognized = "model/provider not recognized"

// meanings are those that are known; the first that fits counts. A code of "" leaves everything as it came but for the advice.
var meanings = []meaning{
	{words: []string{notRecognized}, code: pipeline.CodeUpstreamRequest, as: http.StatusNotFound,
		advice: "404: the gateway serves no model of that id; it tells upper from lower case"},
	{words: []string{"insufficient credits", "insufficient balance"}, code: pipeline.CodePlan, as: http.StatusPaymentRequired,
		advice: "402: add credits to the account at the gateway, or use a model that its plan includes"},
	{words: []string{"upgrade required"},
		advice: "set COMMANDCODE_VERSION, or version in the provider's config, to that of a current command line program of the gateway's"},
	{status: http.StatusForbidden, words: []string{"authentication failed"}, code: pipeline.CodeUpstream, retry: true,
		advice: "the gateway says so at times of keys that are good: ask again"},
	{words: []string{"cmd zdr no providers"},
		advice: "nobody serves this model with zero data retention: use another model, or switch zdr off (CMD_ZDR=0, or zdr in the provider's config)"},
	{status: http.StatusRequestEntityTooLarge,
		advice: "the request is larger than the gateway takes: shorten the conversation, or send fewer or smaller images"},
	{words: []string{"invalid prompt", "modelmessage[]"}, code: pipeline.CodeUpstreamRequest, as: http.StatusBadRequest},
	{words: []string{"datainspectionfailed"}, code: pipeline.CodeUpstreamRequest, as: http.StatusBadRequest,
		advice: "the content filter of the model's maker refused the request"},
}

// passing are failures on the gateway's own way to a model, which pass whatever status they come with.
var passing = []string{"network connection lost", "upstream stream ended before terminal chunk", "gateway request failed"}

// explain says of an error what upstream.Fault does not know. What the gateway itself says of asking again counts, where asking
// again makes sense.
func explain(e *pipeline.Error, f *upstream.Fault) {
	again := (f.Retry || !f.Marked) && f.Window == nil
	if (e.Code == pipeline.CodeUpstream || e.Code == pipeline.CodeUpstreamRequest) && f.Says(passing...) {
		e.Code, e.Retry = pipeline.CodeUpstream, again
		return
	}
	for i := range meanings {
		m := &meanings[i]
		if m.status != 0 && m.status != e.Status || m.words != nil && !f.Says(m.words...) {
			continue
		}
		if m.code != "" {
			e.Code, e.Retry = m.code, m.retry && again
		}
		if m.as != 0 {
			e.Status = m.as
		}
		if m.advice != "" {
			e.Message += " (" + m.advice + ")"
		}
		return
	}
}

// judge sees each error that the gateway reports, on either surface. After "Proxy use detected" the surface stays off (rulings 11).
func (p *Provider) judge(e *pipeline.Error, f *upstream.Fault) {
	explain(e, f)
	switch {
	case f.Says("proxy use detected"):
		p.banned.CompareAndSwap(nil, e)
	case f.Says(notRecognized):
		e.Param = "model"
		if id := p.meant(f.Message); id != "" {
			e.Message += ". Did you mean '" + id + "'?"
		}
	}
	// The exchange is named here and not to the client: the same failure reads the same each time.
	p.cfg.Log.Debug("the gateway reports an error", "provider", p.cfg.ID, "status", f.Status, "type", p.mask.String(f.Kind), "code", p.mask.String(f.Code), "request", f.Request)
}

// meant is the id that a refused one stands for: the one behind the last words of the message, which may have its maker before it.
func (p *Provider) meant(message string) string {
	_, refused, _ := strings.Cut(message, ": ")
	refused = strings.TrimSpace(refused)
	_, bare, _ := strings.Cut(refused, ":")
	for _, name := range []string{refused, bare} {
		if id := p.Resolve(name); id != "" && id != name {
			return id
		}
	}
	return ""
}

// streamFault makes an error of an error event, which holds it in "error", in "message", or in both.
func (d *Decoder) streamFault() *pipeline.Error {
	f := upstream.Fault{Message: d.l.message.String()}
	if d.l.err != nil {
		var s codec.Scanner
		s.Reset(d.l.err)
		f.Read(&s)
	}
	e := f.Err(d.mask)
	if d.of != nil {
		d.of.judge(e, &f)
	} else {
		explain(e, &f)
	}
	return e
}

func aborted(reason codec.Text, mask *secret.Mask) *pipeline.Error {
	e := &pipeline.Error{Code: pipeline.CodeAborted, Origin: pipeline.OriginUpstream, Status: 499, Message: "the upstream aborted the stream"}
	if len(reason) > 0 {
		e.Message += ": " + upstream.Shorten(mask.String(reason.String()))
	}
	return e
}

// refusal makes an error of an answer whose status is not 200.
func (p *Provider) refusal(r *upstream.Reply) error {
	e, f := upstream.Refusal(r, p.mask)
	p.judge(e, f)
	return e
}
