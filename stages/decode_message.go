package stages

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

func (d *decoder) messages() ([]pipeline.Message, error) {
	if d.s.Kind() != codec.Array {
		return nil, pipeline.Invalid("messages", "messages must be a list")
	}
	var list []pipeline.Message
	i := 0
	for d.s.Array(); d.s.Elem(); i++ {
		start := d.s.Offset()
		m, err := d.message(index("messages", i))
		if err != nil {
			return nil, err
		}
		m.Raw = d.turn.Body[start:d.s.Offset()]
		list = append(list, m)
	}
	return list, nil
}

func (d *decoder) message(param string) (m pipeline.Message, err error) {
	if d.s.Kind() != codec.Object {
		return m, pipeline.Invalid(param, "each message must be an object")
	}
	var reasoning string
	for d.s.Object(); d.s.Key() && err == nil; {
		switch string(d.s.Name()) {
		case "role":
			role, _ := d.s.Text()
			m.Role = pipeline.Role(role.String())
		case "content":
			m.Parts, err = d.content(param + ".content")
		case "name":
			m.Name, err = d.optionalText(param + ".name")
		case "tool_call_id":
			m.ToolCallID, err = d.optionalText(param + ".tool_call_id")
		case "tool_calls":
			m.ToolCalls, err = d.toolCalls(param + ".tool_calls")
		case "reasoning_content":
			m.Reasoning = d.lenientText()
		case "reasoning":
			reasoning = d.lenientText()
		default:
			d.s.Skip()
		}
	}
	if err != nil {
		return m, err
	}
	if m.Reasoning == "" {
		m.Reasoning = reasoning
	}
	return m, check(&m, param)
}

// check holds a message against what its role allows.
func check(m *pipeline.Message, param string) error {
	switch m.Role {
	case pipeline.RoleAssistant:
	case pipeline.RoleSystem, pipeline.RoleDeveloper, pipeline.RoleUser:
		m.ToolCalls = nil
	case pipeline.RoleTool:
		m.ToolCalls = nil
		if m.ToolCallID == "" {
			return pipeline.Invalid(param+".tool_call_id", "a tool message needs the tool_call_id of the call that it answers")
		}
	default:
		return pipeline.Invalid(param+".role", "role must be one of system, user, assistant, tool, developer")
	}
	if m.Role != pipeline.RoleAssistant {
		m.Reasoning = ""
	}
	return nil
}

// lenientText consumes a value that counts only if it is a string, as clients put other things in these fields.
func (d *decoder) lenientText() string {
	t, _ := d.s.Text()
	return t.String()
}

func (d *decoder) content(param string) ([]pipeline.Part, error) {
	switch d.s.Kind() {
	case codec.Null:
		d.s.Skip()
		return nil, nil
	case codec.String:
		t, _ := d.s.Text()
		return []pipeline.Part{{Text: t.String()}}, nil
	case codec.Array:
	default:
		return nil, pipeline.Invalid(param, "content must be a string, a list of parts or null")
	}
	parts := []pipeline.Part{}
	i := 0
	for d.s.Array(); d.s.Elem(); i++ {
		at := index(param, i)
		if d.s.Kind() != codec.Object {
			return nil, pipeline.Invalid(at, "each content part must be an object")
		}
		p, ok, err := d.part(at)
		if err != nil {
			return nil, err
		}
		if ok {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// part reads one content part; ok is false for kinds that are passed over.
func (d *decoder) part(param string) (p pipeline.Part, ok bool, err error) {
	var kind, text, refusal, url string
	for d.s.Object(); d.s.Key() && err == nil; {
		switch string(d.s.Name()) {
		case "type":
			kind, err = d.text(param + ".type")
		case "text":
			text = d.lenientText()
		case "refusal":
			refusal = d.lenientText()
		case "image_url":
			url, err = d.imageURL(param + ".image_url")
		default:
			d.s.Skip()
		}
	}
	switch {
	case err != nil:
		return p, false, err
	case kind == "text":
		return pipeline.Part{Text: text}, true, nil
	case kind == "refusal":
		return pipeline.Part{Text: refusal}, true, nil
	case kind == "image_url":
		if d.remote && isRemote(url) {
			return pipeline.Part{Image: url}, true, nil
		}
		p, err = image(url, param+".image_url.url")
		return p, err == nil, err
	case kind == "reasoning", kind == "thinking": // what some clients keep of it beside reasoning_content
		return p, false, nil
	case kind == "":
		return p, false, pipeline.Invalid(param+".type", "a content part needs a type")
	}
	return p, false, pipeline.Invalid(param+".type", fmt.Sprintf("content parts of type %q are not supported: send text or image_url", kind))
}

// imageURL reads {"url": …}, or a bare string as some clients send it. Null is as good as absent: others write all members of a
// part, whatever its type.
func (d *decoder) imageURL(param string) (url string, err error) {
	if d.null() {
		return "", nil
	}
	if d.s.Kind() != codec.Object {
		return d.text(param)
	}
	for d.s.Object(); d.s.Key() && err == nil; {
		if string(d.s.Name()) == "url" {
			url, err = d.text(param + ".url")
		} else {
			d.s.Skip()
		}
	}
	return url, err
}

// isRemote reports whether an image must be fetched.
func isRemote(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")
}

// image checks that url holds the picture itself (rulings 30).
func image(url, param string) (p pipeline.Part, err error) {
	meta, data, found := strings.Cut(url, ",")
	scheme, meta, _ := strings.Cut(meta, ":")
	if !strings.EqualFold(scheme, "data") || !found {
		return p, pipeline.Invalid(param, "images must be sent inline, as a data URL (data:image/png;base64,…): this server fetches none but over HTTP, and those only if its host config sets limits.fetchImages")
	}
	fields := strings.Split(strings.ToLower(meta), ";")
	media := fields[0]
	if fields[len(fields)-1] != "base64" {
		return p, pipeline.Invalid(param, "the image's data URL must be base64-coded (data:image/png;base64,…)")
	}
	if !imageType.MatchString(media) {
		return p, pipeline.Invalid(param, "the image's data URL must name its media type (data:image/png;base64,…)")
	}
	if !isBase64(data) {
		return p, pipeline.Invalid(param, "the image's data is not valid base64")
	}
	// Upstreams know the plain form only: no parameters, and lower case.
	if plain := "data:" + media + ";base64,"; !strings.HasPrefix(url, plain) {
		url = plain + data
	}
	return pipeline.Part{Image: url, MediaType: media}, nil
}

var imageType = regexp.MustCompile(`^image/[a-z0-9][a-z0-9.+-]*$`)

// isBase64 reports whether s is standard base64, padded or not, without decoding megabytes of it into memory.
func isBase64(s string) bool {
	coded := len(s)
	if s = strings.TrimRight(s, "="); s == "" || len(s) < coded && coded != (len(s)+3)/4*4 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/') {
			return false
		}
	}
	_, err := base64.RawStdEncoding.DecodeString(s[len(s)-len(s)%4:])
	return err == nil
}

func (d *decoder) toolCalls(param string) ([]pipeline.Call, error) {
	if d.null() {
		return nil, nil
	}
	if d.s.Kind() != codec.Array {
		return nil, pipeline.Invalid(param, "tool_calls must be a list or null")
	}
	var calls []pipeline.Call
	i := 0
	for d.s.Array(); d.s.Elem(); i++ {
		c, err := d.toolCall(index(param, i))
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

func (d *decoder) toolCall(param string) (c pipeline.Call, err error) {
	if d.s.Kind() != codec.Object {
		return c, pipeline.Invalid(param, "each tool call must be an object")
	}
	c.Arguments = noArguments
	for d.s.Object(); d.s.Key() && err == nil; {
		switch string(d.s.Name()) {
		case "id":
			c.ID, err = d.text(param + ".id")
		case "function":
			if d.s.Kind() != codec.Object {
				return c, pipeline.Invalid(param+".function", "function must be an object")
			}
			for d.s.Object(); d.s.Key() && err == nil; {
				switch string(d.s.Name()) {
				case "name":
					c.Name, err = d.text(param + ".function.name")
				case "arguments":
					c.Arguments = d.arguments()
				default:
					d.s.Skip()
				}
			}
		default:
			d.s.Skip()
		}
	}
	switch {
	case err != nil:
	case c.ID == "":
		err = pipeline.Invalid(param+".id", "a tool call needs its id")
	case c.Name == "":
		err = pipeline.Invalid(param+".function.name", "a tool call needs the name of its function")
	}
	return c, err
}

var noArguments = []byte("{}")

// arguments reads what the model once wrote: a JSON object stays byte for byte, nothing becomes {}, and what is not an object
// is preserved as {"_raw_arguments": text} (http-face.md, "System-message containment").
func (d *decoder) arguments() []byte {
	var raw []byte
	if d.s.Kind() == codec.String {
		t, _ := d.s.Text()
		raw = t.AppendTo(nil)
	} else {
		raw = d.s.Raw() // some clients send what the text says, not the text
	}
	var s codec.Scanner
	s.Reset(raw)
	switch kind := s.Kind(); {
	case strings.TrimSpace(string(raw)) == "", kind == codec.Null && codec.Validate(raw) == nil:
		return noArguments
	case kind == codec.Object && codec.Validate(raw) == nil:
		return raw
	}
	return append(codec.AppendString([]byte(`{"_raw_arguments":`), raw), '}')
}
