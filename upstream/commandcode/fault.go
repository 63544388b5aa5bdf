package commandcode

import (
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

// streamFault makes an error of an error event, which holds it in "error", in "message", or in both.
func streamFault(raw []byte, message codec.Text, mask *secret.Mask) *pipeline.Error {
	f := upstream.Fault{Message: message.String()}
	if raw != nil {
		var s codec.Scanner
		s.Reset(raw)
		f.Read(&s)
	}
	return f.Err(mask)
}

func aborted(reason codec.Text, mask *secret.Mask) *pipeline.Error {
	e := &pipeline.Error{Code: pipeline.CodeAborted, Origin: pipeline.OriginUpstream, Status: 499, Message: "the upstream aborted the stream"}
	if len(reason) > 0 {
		e.Message += ": " + upstream.Shorten(mask.String(reason.String()))
	}
	return e
}

// refusal makes an error of an answer whose status is not 200. After "Proxy use detected" the surface stays off (rulings 11).
func (p *Provider) refusal(r *upstream.Reply) error {
	e, f := upstream.Refusal(r, p.mask)
	if f.Says("proxy use detected") {
		p.banned.Store(e)
	}
	return e
}
