package simulator

import (
	"net/http"
	"strings"
	"time"

	"amplifier-agent/codec"
)

// chatRequest is a request of POST /provider/v1/chat/completions. Its Request holds what it means in the terms of the other route,
// so that plans, faults and scripts serve both.
type chatRequest struct {
	*Request
	stream bool
	usage  bool // stream_options.include_usage
}

// chatCompletions is one exchange of POST /provider/v1/chat/completions.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) {
	s.exchange(w, r, s.receiveChat)
}

// receiveChat is receive for a chat completion.
func (s *Server) receiveChat(r *http.Request) (*Answer, error) {
	raw, err := readBody(r)
	if err != nil {
		return nil, err
	}
	req := chatRequest{Request: &Request{Header: r.Header.Clone(), Raw: raw, At: time.Now()}}
	a := s.checkChat(&req)
	req.Refused = a != nil
	s.record(req.Request)
	if a == nil {
		a = s.choose(req.Request)
	}
	return req.answer(a), nil
}

// checkChat returns the refusal, or nil. Nobody needs to be the vendor's own client here.
func (s *Server) checkChat(req *chatRequest) *Answer {
	if a := s.admit(req.Request); a != nil {
		return a
	}
	c := &checker{}
	c.chat(req)
	if why := c.message(); why != "" {
		return refuseInvalid(why)
	}
	if a := s.find(req.Request); a != nil {
		return a
	}
	open := make(map[string]bool)
	for _, m := range req.Messages {
		if !pair(m, open) {
			return refuseInvalid(invalidPrompt)
		}
	}
	if missing := unanswered(req.Messages); len(missing) > 0 {
		return missingResults(missing)
	}
	return nil
}

// chat fills req from its body.
func (c *checker) chat(req *chatRequest) {
	root, ok := objectOf(req.Raw)
	if !ok {
		c.problems = append(c.problems, "expected object, received undefined")
		return
	}
	req.params = req.Raw
	req.HasSystem = true // nothing is put in its place on this route
	if raw, ok := c.want(root, "", "model", kindString); ok {
		req.Model = stringOf(raw)
	}
	if raw, ok := c.want(root, "", "messages", kindArray); ok {
		c.chatMessages(req, raw)
	}
	if raw, ok := c.optional(root, "", "tools", kindArray); ok {
		req.Tools = c.chatTools(raw)
	}
	for _, key := range []string{"max_tokens", "max_completion_tokens"} {
		if raw, ok := c.optional(root, "", key, kindNumber); ok {
			req.MaxTokens = c.maxTokens(raw)
		}
	}
	c.optional(root, "", "temperature", kindNumber)
	c.optional(root, "", "top_p", kindNumber)
	c.optional(root, "", "stop", kindArray, kindString)
	c.optional(root, "", "tool_choice", kindString, kindObject)
	if _, there := root["reasoning_effort"]; there {
		req.ReasoningEffort = c.enum(root, "", "reasoning_effort", "low", "medium", "high", "xhigh", "max")
	}
	if raw, ok := c.optional(root, "", "stream", kindBoolean); ok {
		req.stream = string(raw) == "true"
	}
	if raw, ok := c.optional(root, "", "stream_options", kindObject); ok {
		o, _ := objectOf(raw)
		req.usage = string(o["include_usage"]) == "true"
	}
	req.inputBytes = len(root["messages"]) + len(root["tools"])
}

func (c *checker) chatMessages(req *chatRequest, raw codec.RawMessage) {
	entries := arrayOf(raw)
	if len(entries) == 0 {
		c.add("Too small: expected array to have >=1 items", "messages")
	}
	names := map[string]string{} // of calls, by id
	old, history := 0, false
	for i, o := range c.objects(entries, "messages") {
		path := index("messages", i)
		if i < len(entries)-1 {
			old += len(entries[i])
		}
		m := Message{Role: c.enum(o, path, "role", "system", "developer", "user", "assistant", "tool")}
		switch m.Role {
		case "system", "developer":
			m.Parts = c.chatContent(o, path, kindString, kindArray)
			req.System = strings.TrimPrefix(req.System+"\n"+m.Text(), "\n")
			continue
		case "assistant":
			m.Parts = c.chatAssistant(o, path, names)
		case "tool":
			id := c.name(o, path, "tool_call_id")
			text := Message{Parts: c.chatContent(o, path, kindString, kindArray)}.Text()
			m.Parts = []Part{{Type: "tool-result", ToolCallID: id, ToolName: names[id], Output: Output{Type: "text", Value: text}}}
		default:
			if m.Parts = c.chatContent(o, path, kindString, kindArray); len(m.Parts) == 0 {
				c.add("Too small: expected content", path)
			}
		}
		history = history || m.Role != "user"
		req.Messages = append(req.Messages, m)
	}
	if history { // else nothing is in the cache yet
		req.oldBytes = old
	}
}

// name is a string that must not be empty.
func (c *checker) name(o object, path, key string) string {
	raw, ok := c.want(o, path, key, kindString)
	s := stringOf(raw)
	if ok && s == "" {
		c.add("Too small: expected string to have >=1 characters", join(path, key))
	}
	return s
}

func (c *checker) chatContent(o object, path string, kinds ...string) []Part {
	raw, ok := c.want(o, path, "content", kinds...)
	if !ok || kindOf(raw) == kindNull {
		return nil
	}
	if kindOf(raw) == kindString {
		if s := stringOf(raw); s != "" {
			return []Part{{Type: "text", Text: s}}
		}
		return nil
	}
	var parts []Part
	for i, part := range c.objects(arrayOf(raw), path+".content") {
		at := index(path+".content", i)
		switch c.enum(part, at, "type", "text", "image_url") {
		case "text":
			parts = append(parts, Part{Type: "text", Text: c.name(part, at, "text")})
		case "image_url":
			image, _ := c.object(part, at, "image_url")
			url := c.name(image, at+".image_url", "url")
			if !dataURL.MatchString(url) {
				c.add("Invalid URL", at+".image_url.url")
			}
			parts = append(parts, Part{Type: "image", Image: url})
		}
	}
	return parts
}

func (c *checker) chatAssistant(o object, path string, names map[string]string) []Part {
	var parts []Part
	if raw, ok := c.optional(o, path, "reasoning_content", kindString, kindNull); ok && kindOf(raw) == kindString {
		parts = append(parts, Part{Type: "reasoning", Text: stringOf(raw)})
	}
	parts = append(parts, c.chatContent(o, path, kindString, kindArray, kindNull)...)
	calls, _ := c.optional(o, path, "tool_calls", kindArray)
	for i, entry := range c.objects(arrayOf(calls), path+".tool_calls") {
		at := index(path+".tool_calls", i)
		c.enum(entry, at, "type", "function")
		id := c.name(entry, at, "id")
		function, _ := c.object(entry, at, "function")
		p := Part{Type: "tool-call", ToolCallID: id, ToolName: c.name(function, at+".function", "name")}
		if p.Input = codec.RawMessage(c.name(function, at+".function", "arguments")); kindOf(p.Input) != kindObject || codec.Validate(p.Input) != nil {
			c.add("expected a JSON object", at+".function.arguments")
		}
		names[id] = p.ToolName
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		c.add("Too small: expected content or tool_calls", path)
	}
	return parts
}

func (c *checker) chatTools(raw codec.RawMessage) []Tool {
	var tools []Tool
	entries := arrayOf(raw)
	if len(entries) == 0 {
		c.add("Too small: expected array to have >=1 items", "tools")
	}
	for i, o := range c.objects(entries, "tools") {
		path := index("tools", i)
		c.enum(o, path, "type", "function")
		function, _ := c.object(o, path, "function")
		t := Tool{Name: c.name(function, path+".function", "name"), Description: stringOf(function["description"])}
		t.InputSchema, _ = c.optional(function, path+".function", "parameters", kindObject)
		tools = append(tools, t)
	}
	return tools
}
