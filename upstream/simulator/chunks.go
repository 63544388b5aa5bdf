package simulator

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"amplifier-agent/codec"
)

// answer is a in the words of this route. What is no stream of events, and no error of the other route, stays as it is.
func (req *chatRequest) answer(a *Answer) *Answer {
	b := *a
	switch {
	case a.status() != 200:
		b.Body = chatError(a)
	case a.contentType() != "text/event-stream":
	default:
		c := chunks{req: req, calls: map[string]int{}}
		c.all(a)
		b.Body, b.Pauses = c.out, c.pauses
		if !req.stream {
			return c.whole()
		}
	}
	return &b
}

// chatError puts an error of the other route into the form of this one. Pages and texts stay.
func chatError(a *Answer) []byte {
	root, ok := objectOf(a.Body)
	e, is := objectOf(root["error"])
	if _, there := root["success"]; !ok || !is || !there {
		return a.Body
	}
	typ := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}[a.status()]
	if typ == "" {
		typ = "api_error"
	}
	out := append([]byte(`{"error":{"message":`), e["message"]...)
	out = append(append(out, `,"type":"`...), typ...)
	out = append(append(out, `","code":`...), e["code"]...)
	if limit := e["rateLimit"]; limit != nil {
		out = append(append(out, `,"rateLimit":`...), limit...)
	}
	return append(out, "}}"...)
}

// chunks turns the lines of an answer into the events of a chat completion. Lines that are no events of the other route stay.
type chunks struct {
	req    *chatRequest
	out    []byte
	pauses []Pause
	calls  map[string]int // index by id
	ended  bool           // a finish reason was sent

	text, reasoning []byte // string bodies, for an answer that is no stream
	list            []*chatCall
	reason          string
	usage           []byte
	failed          []byte // the error object
}

// chatCall is a call in an answer that is no stream; args is a string body.
type chatCall struct{ id, name, args []byte }

// all goes through a's lines, and moves its pauses along.
func (c *chunks) all(a *Answer) {
	pauses := a.Pauses
	for pos := 0; pos < len(a.Body); {
		for len(pauses) > 0 && pauses[0].At <= pos {
			c.pauses = append(c.pauses, Pause{len(c.out), pauses[0].For})
			pauses = pauses[1:]
		}
		line := a.Body[pos:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		pos += len(line)
		data := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("data:")))
		if o, ok := objectOf(data); !ok || !c.event(stringOf(o["type"]), o) {
			c.out = append(c.out, line...)
		}
	}
	for _, p := range pauses {
		c.pauses = append(c.pauses, Pause{len(c.out), p.For})
	}
}

// event puts one event into chunks; false means that it is none.
func (c *chunks) event(typ string, o object) bool {
	switch typ {
	case "start":
		c.delta(`"role":"assistant","content":""`)
	case "start-step", "text-start", "text-end", "reasoning-start", "reasoning-end", "tool-input-end", "provider-metadata":
	case "text-delta":
		c.text = append(c.text, inner(o["text"])...)
		c.delta(`"content":` + string(o["text"]))
	case "reasoning-delta":
		c.reasoning = append(c.reasoning, inner(o["text"])...)
		c.delta(`"reasoning_content":` + string(o["text"]))
	case "tool-input-start":
		c.call(o["id"], o["toolName"])
	case "tool-input-delta":
		c.arguments(o["id"], o["delta"])
	case "tool-call":
		if _, begun := c.calls[string(o["toolCallId"])]; !begun {
			c.call(o["toolCallId"], o["toolName"])
			c.arguments(o["toolCallId"], appendString(nil, string(o["input"])))
		}
	case "finish-step":
		c.finish(o)
	case "finish":
		c.finish(o)
		c.tokens(o["totalUsage"])
		c.out = append(c.out, "data: [DONE]\n\n"...)
	case "error":
		c.fail(o)
	case "abort":
		c.fail(object{"message": codec.RawMessage(`"request aborted"`)})
	default:
		return false
	}
	return true
}

// inner is the body of a string.
func inner(raw []byte) []byte {
	if kindOf(raw) != kindString {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// head opens a chunk.
func (c *chunks) head() {
	c.out = append(c.out, "data: "...)
	c.members("chat.completion.chunk")
}

// members opens the object of a chunk or a whole answer.
func (c *chunks) members(kind string) {
	c.out = append(c.out, `{"id":"chatcmpl-sim","object":"`+kind+`","created":`+strconv.FormatInt(c.req.At.Unix(), 10)+`,"model":`...)
	c.out = appendString(c.out, c.req.Model)
}

func (c *chunks) delta(members string) {
	c.head()
	c.out = append(c.out, `,"choices":[{"index":0,"delta":{`+members+`},"finish_reason":null}]}`+"\n\n"...)
}

func (c *chunks) call(id, name codec.RawMessage) {
	i := len(c.list)
	c.calls[string(id)] = i
	c.list = append(c.list, &chatCall{id: id, name: name})
	c.delta(`"tool_calls":[{"index":` + strconv.Itoa(i) + `,"id":` + string(id) + `,"type":"function","function":{"name":` + string(name) + `,"arguments":""}}]`)
}

func (c *chunks) arguments(id, text codec.RawMessage) {
	i, begun := c.calls[string(id)]
	if !begun {
		return
	}
	c.list[i].args = append(c.list[i].args, inner(text)...)
	c.delta(`"tool_calls":[{"index":` + strconv.Itoa(i) + `,"function":{"arguments":` + string(text) + `}}]`)
}

// finish sends the reason why the model stopped, once.
func (c *chunks) finish(o object) {
	if c.ended {
		return
	}
	c.ended = true
	if c.reason = stringOf(o["finishReason"]); c.reason == "" {
		c.reason = stringOf(o["rawFinishReason"])
	}
	c.reason = strings.ReplaceAll(c.reason, "-", "_")
	c.head()
	c.out = append(c.out, `,"choices":[{"index":0,"delta":{},"finish_reason":`...)
	c.out = append(appendString(c.out, c.reason), "}]}\n\n"...)
}

// tokens sends the usage, if it was asked for.
func (c *chunks) tokens(raw codec.RawMessage) {
	o, ok := objectOf(raw)
	if !ok {
		return
	}
	count := func(name string) int {
		n, _ := strconv.Atoi(string(o[name])) // a script may leave it out
		return n
	}
	in, out := count("inputTokens"), count("outputTokens")
	c.usage = fmt.Appendf(nil, `{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},`+
		`"completion_tokens_details":{"reasoning_tokens":%d}}`, in, out, in+out, count("cachedInputTokens"), count("reasoningTokens"))
	if c.req.usage {
		c.head()
		c.out = append(c.out, `,"choices":[],"usage":`...)
		c.out = append(append(c.out, c.usage...), "}\n\n"...)
	}
}

// fail sends an error, in an object whatever it came in.
func (c *chunks) fail(o object) {
	e := o["error"]
	switch kindOf(e) {
	case kindObject:
	case kindString:
		e = codec.RawMessage(`{"message":` + string(e) + `,"type":"api_error"}`)
	default:
		e = codec.RawMessage(`{"message":` + string(o["message"]) + `,"type":"api_error"}`)
	}
	c.failed = e
	c.out = append(append(append(c.out, `data: {"error":`...), e...), "}\n\n"...)
}

// whole is the answer to a request that did not ask for a stream.
func (c *chunks) whole() *Answer {
	if c.failed != nil {
		return &Answer{Status: 502, Body: []byte(`{"error":` + string(c.failed) + `}`), WriteSize: Coalesce}
	}
	c.out = nil
	c.members("chat.completion")
	c.out = append(c.out, `,"choices":[{"index":0,"message":{"role":"assistant","content":"`...)
	c.out = append(append(c.out, c.text...), `","reasoning_content":"`...)
	c.out = append(append(c.out, c.reasoning...), '"')
	for i, call := range c.list {
		if i == 0 {
			c.out = append(c.out, `,"tool_calls":[`...)
		} else {
			c.out = append(c.out, ',')
		}
		c.out = append(append(c.out, `{"id":`...), call.id...)
		c.out = append(append(c.out, `,"type":"function","function":{"name":`...), call.name...)
		c.out = append(append(append(c.out, `,"arguments":"`...), call.args...), `"}}`...)
		if i == len(c.list)-1 {
			c.out = append(c.out, ']')
		}
	}
	c.out = appendString(append(c.out, `},"finish_reason":`...), c.reason)
	c.out = append(c.out, "}]"...)
	if c.usage != nil {
		c.out = append(append(c.out, `,"usage":`...), c.usage...)
	}
	return &Answer{ContentType: "application/json", Body: append(c.out, '}'), WriteSize: Coalesce}
}
