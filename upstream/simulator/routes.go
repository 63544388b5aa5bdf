package simulator

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /alpha/generate", s.generate)
	mux.HandleFunc("POST /provider/v1/chat/completions", s.chatCompletions)
	mux.HandleFunc("GET /provider/v1/models", s.listModels)
	mux.HandleFunc("GET /alpha/whoami", s.account(whoami))
	mux.HandleFunc("GET /alpha/billing/credits", s.account(credits))
	mux.HandleFunc("GET /alpha/billing/subscriptions", s.account(subscription))
	mux.HandleFunc("GET /alpha/usage/summary", s.account(usageSummary))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.plain(w, r, refuseNoRoute(r.Method, r.URL.Path))
	})
	return mux
}

func (s *Server) plain(w http.ResponseWriter, r *http.Request, a *Answer) {
	_ = s.play(w, r, a) // a peer that left an error page is nobody's news
}

// generate is one exchange of POST /alpha/generate.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) { s.exchange(w, r, s.receive) }

// exchange plays what receive has decided.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, receive func(*http.Request) (*Answer, error)) {
	s.live.Add(1)
	defer s.live.Done()
	s.active.Add(1)
	defer s.active.Add(-1)

	a, err := receive(r)
	if err == nil {
		err = s.play(w, r, a)
	} else {
		_ = drop(http.NewResponseController(w), false) // else net/http would answer half a request with an empty 200
	}
	if err != nil && s.ctx.Err() == nil { // else it was Close that ended it
		s.gone.Add(1)
	}
}

// receive reads and checks a request and decides its answer. An error means that the client left in the middle of its body.
func (s *Server) receive(r *http.Request) (*Answer, error) {
	raw, err := readBody(r)
	if err != nil {
		return nil, err
	}
	req := &Request{Header: r.Header.Clone(), Raw: raw, At: time.Now()}
	a := s.check(req)
	if a != nil {
		req.Refused = true
	}
	s.record(req)
	if a == nil {
		a = s.choose(req)
	}
	return a, nil
}

// readBody returns at most one byte more than maxBodyBytes: the one that tells a body that is too large.
func readBody(r *http.Request) ([]byte, error) {
	var buf bytes.Buffer
	if n := r.ContentLength; n > 0 {
		buf.Grow(int(min(n, maxPrealloc)) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(io.LimitReader(r.Body, maxBodyBytes+1)); err != nil {
		return nil, err
	}
	if buf.Len() > maxBodyBytes {
		_, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxDrainBytes))
		return buf.Bytes(), err
	}
	return buf.Bytes(), nil
}

// check returns the gateway's refusal, or nil, in the gateway's order: size, key, client version, envelope, model, messages.
func (s *Server) check(req *Request) *Answer {
	if a := s.admit(req); a != nil {
		return a
	}
	if req.Header.Get("X-Command-Code-Version") == "" {
		return refuseVersion()
	}
	env, problems := checkEnvelope(req)
	if problems != "" {
		return refuseInvalid(problems)
	}
	if a := s.find(req); a != nil {
		return a
	}
	if why := decodeMessages(req, env.messages); why != "" {
		return refuseInvalid(why)
	}
	if missing := unanswered(req.Messages); len(missing) > 0 {
		return missingResults(missing)
	}
	return nil
}

// admit refuses what is too large, and whoever has no key.
func (s *Server) admit(req *Request) *Answer {
	if len(req.Raw) > maxBodyBytes {
		req.Raw = req.Raw[:0:0]
		return refuseTooLarge()
	}
	if !s.keyAccepted(req.Header.Get("Authorization")) {
		return refuseUnauthorized()
	}
	return nil
}

// find finds the model that is asked for, and refuses one that nobody knows or the plan does not cover.
func (s *Server) find(req *Request) *Answer {
	m, ok := s.byID[req.Model]
	if !ok {
		return refuseUnknownModel(req.Model)
	}
	if m.Plan != "" {
		return refusePlan(m)
	}
	req.model = m
	return nil
}

func (s *Server) keyAccepted(header string) bool {
	scheme, key, ok := strings.Cut(header, " ")
	key = strings.TrimSpace(key)
	if !ok || !strings.EqualFold(scheme, "Bearer") || key == "" {
		return false
	}
	return len(s.opts.Keys) == 0 || slices.Contains(s.opts.Keys, key)
}

func (s *Server) choose(req *Request) *Answer {
	if f := s.script.Load(); f != nil {
		if a := (*f)(req); a != nil {
			if a.Fault != "" {
				return s.faulty(a.Fault, req)
			}
			return a
		}
	}
	return s.Default(req)
}

// Default is the answer that r would get without a script: the fault that its prompt or Options.Fault names, else what the
// prompt asks for. The caller may change the Answer before returning it from a script.
func (s *Server) Default(r *Request) *Answer {
	if f := r.fault(); f != "" {
		return s.faulty(f, r)
	}
	if s.opts.Fault != "" {
		return s.faulty(s.opts.Fault, r)
	}
	return s.newTurn(r).answer()
}

func (s *Server) faulty(f Fault, r *Request) *Answer {
	if !f.Known() {
		return refuseUnknownFault(f)
	}
	return s.newTurn(r).faulty(f)
}
