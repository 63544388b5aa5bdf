package simulator

import (
	"iter"
	"mime"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"amplifier-agent/codec"
)

const maxOutputTokens = 200000 // params.max_tokens

// The names the gateway's validator has for kinds of JSON values.
const (
	kindUndefined = "undefined"
	kindNull      = "null"
	kindString    = "string"
	kindNumber    = "number"
	kindBoolean   = "boolean"
	kindArray     = "array"
	kindObject    = "object"
)

// object keeps keys exact. Decoding into a struct would also take "workingdir" for "workingDir"; the gateway does not.
type object map[string]codec.RawMessage

// envelope is what the checks of the envelope leave for later ones.
type envelope struct {
	messages codec.RawMessage
}

// checker gathers the problems of one body; the gateway lists them all at once.
type checker struct{ problems []string }

func (c *checker) add(problem, path string) {
	c.problems = append(c.problems, problem+` at "`+path+`"`)
}

func (c *checker) message() string {
	if len(c.problems) == 0 {
		return ""
	}
	return "Validation error: " + strings.Join(c.problems, "; ")
}

// want checks the kind of one member. Of several allowed kinds the first is the one the message names.
func (c *checker) want(o object, parent, key string, kinds ...string) (codec.RawMessage, bool) {
	raw := o[key]
	if got := kindOf(raw); !slices.Contains(kinds, got) {
		c.add("expected "+kinds[0]+", received "+got, join(parent, key))
		return nil, false
	}
	return raw, true
}

// objects are the entries at path that are objects, each with its index. The others are problems.
func (c *checker) objects(entries []codec.RawMessage, path string) iter.Seq2[int, object] {
	return func(yield func(int, object) bool) {
		for i, e := range entries {
			o, ok := objectOf(e)
			if !ok {
				c.add("expected object, received "+kindOf(e), index(path, i))
			} else if !yield(i, o) {
				return
			}
		}
	}
}

// optional is want for a member that may be absent.
func (c *checker) optional(o object, parent, key string, kinds ...string) (codec.RawMessage, bool) {
	if _, there := o[key]; !there {
		return nil, false
	}
	return c.want(o, parent, key, kinds...)
}

func (c *checker) object(o object, parent, key string) (object, bool) {
	raw, ok := c.want(o, parent, key, kindObject)
	if !ok {
		return nil, false
	}
	return objectOf(raw)
}

func (c *checker) enum(o object, parent, key string, values ...string) string {
	v := stringOf(o[key])
	if kindOf(o[key]) != kindString || !slices.Contains(values, v) {
		c.add(`Invalid option: expected one of "`+strings.Join(values, `"|"`)+`"`, join(parent, key))
	}
	return v
}

func (c *checker) stringArray(o object, parent, key string) {
	raw, ok := c.want(o, parent, key, kindArray)
	if !ok {
		return
	}
	for i, e := range arrayOf(raw) {
		if got := kindOf(e); got != kindString {
			c.add("expected string, received "+got, index(join(parent, key), i))
		}
	}
}

// checkEnvelope fills the scalar fields of req and returns the message that lists every missing or mistyped path, "" for none.
// Messages are only seen to be an array here: what is wrong inside them is reported in other words.
func checkEnvelope(req *Request) (envelope, string) {
	c := &checker{}
	root, ok := objectOf(req.Raw)
	if t, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || t != "application/json" {
		ok = false // the gateway reads a body only when it is declared as JSON
	}
	if !ok {
		return envelope{}, "Validation error: expected object, received undefined"
	}
	if o, ok := c.object(root, "", "config"); ok {
		c.config(o)
	}
	c.want(root, "", "memory", kindString, kindNull)
	c.want(root, "", "taste", kindString, kindNull)
	c.want(root, "", "skills", kindString, kindNull)
	c.enum(root, "", "permissionMode", "standard", "auto-accept", "plan")
	var env envelope
	if o, ok := c.object(root, "", "params"); ok {
		req.params = root["params"]
		env = c.params(o, req)
	}
	if _, there := root["threadId"]; there {
		req.ThreadID = stringOf(root["threadId"])
		if !uuid4.MatchString(req.ThreadID) {
			c.add("Invalid UUID", "threadId")
		}
	}
	if _, there := root["mode"]; there {
		c.enum(root, "", "mode", "agent", "learning", "custom-agent", "custom-agent-create", "title-gen", "tool-desc", "compact", "vision")
	}
	if _, there := root["promptCache"]; there {
		c.enum(root, "", "promptCache", "off")
	}
	return env, c.message()
}

var uuid4 = regexp.MustCompile(`^(?i)[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func (c *checker) config(o object) {
	c.want(o, "config", "workingDir", kindString)
	c.want(o, "config", "date", kindString)
	c.want(o, "config", "environment", kindString)
	c.stringArray(o, "config", "structure")
	c.want(o, "config", "isGitRepo", kindBoolean)
	c.want(o, "config", "currentBranch", kindString)
	c.want(o, "config", "mainBranch", kindString)
	c.want(o, "config", "gitStatus", kindString)
	c.stringArray(o, "config", "recentCommits")
}

func (c *checker) params(o object, req *Request) (env envelope) {
	if raw, ok := c.want(o, "params", "model", kindString); ok {
		req.Model = stringOf(raw)
	}
	if raw, ok := c.optional(o, "params", "system", kindString, kindArray); ok {
		req.HasSystem = true
		req.System = c.system(raw)
	}
	if raw, ok := c.want(o, "params", "messages", kindArray); ok {
		env.messages = raw
	}
	if raw, ok := c.want(o, "params", "tools", kindArray); ok {
		req.Tools = c.tools(raw)
	}
	if raw, ok := c.want(o, "params", "max_tokens", kindNumber); ok {
		req.MaxTokens = c.maxTokens(raw)
	}
	if raw, ok := c.optional(o, "params", "temperature", kindNumber); ok {
		if f, err := strconv.ParseFloat(string(raw), 64); err == nil {
			req.Temperature = &f
		}
	}
	if _, there := o["reasoning_effort"]; there {
		req.ReasoningEffort = c.enum(o, "params", "reasoning_effort", "low", "medium", "high", "xhigh", "max", "off")
	}
	if raw, ok := c.optional(o, "params", "tool_choice", kindObject); ok {
		c.toolChoice(raw)
	}
	if string(o["stream"]) != "true" {
		c.add("expected true", "params.stream")
	}
	req.inputBytes = len(o["system"]) + len(o["messages"]) + len(o["tools"])
	req.oldBytes = len(o["system"]) + len(o["tools"])
	return env
}

func (c *checker) system(raw codec.RawMessage) string {
	if kindOf(raw) == kindString {
		return stringOf(raw)
	}
	var blocks []string
	for i, o := range c.objects(arrayOf(raw), "params.system") {
		path := index("params.system", i)
		c.enum(o, path, "type", "text")
		if text, ok := c.want(o, path, "text", kindString); ok {
			blocks = append(blocks, stringOf(text))
		}
		c.optional(o, path, "cache_control", kindObject)
	}
	return strings.Join(blocks, "\n")
}

func (c *checker) tools(raw codec.RawMessage) []Tool {
	var tools []Tool
	for i, o := range c.objects(arrayOf(raw), "params.tools") {
		path := index("params.tools", i)
		t := Tool{Name: c.name(o, path, "name")}
		if d, ok := c.optional(o, path, "description", kindString); ok {
			t.Description = stringOf(d)
		}
		t.InputSchema, _ = c.want(o, path, "input_schema", kindObject)
		tools = append(tools, t)
	}
	return tools
}

func (c *checker) maxTokens(raw codec.RawMessage) int {
	const path = "params.max_tokens"
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil || f != float64(int64(f)):
		c.add("expected int, received number", path)
	case f < 1:
		c.add("Too small: expected number to be >=1", path)
	case f > maxOutputTokens:
		c.add("Too big: expected number to be <="+strconv.Itoa(maxOutputTokens), path)
	default:
		return int(f)
	}
	return 0
}

// toolChoice knows no "none": the gateway wants the tools left out instead.
func (c *checker) toolChoice(raw codec.RawMessage) {
	o, _ := objectOf(raw)
	if c.enum(o, "params.tool_choice", "type", "auto", "any", "tool") == "tool" {
		c.want(o, "params.tool_choice", "name", kindString)
	}
}
