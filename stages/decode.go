package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// DecodeOptions configure Decode.
type DecodeOptions struct {
	// RemoteImages lets messages name images by URL. A later stage must bring them (Images).
	RemoteImages bool
}

// Decode reads a chat-completions request from t.Body (http-face.md, "Request"; rulings 19). Unknown fields are ignored. An error
// names the path that broke the schema.
func Decode(o DecodeOptions) pipeline.Stage {
	return pipeline.Stage{Name: "decode", Request: func(_ context.Context, t *pipeline.Turn) error {
		d := decoder{turn: t, remote: o.RemoteImages}
		d.s.Reset(t.Body)
		return d.request()
	}}
}

// decoder walks the body once. Its methods return the first breach of the schema.
type decoder struct {
	s      codec.Scanner
	turn   *pipeline.Turn
	remote bool // images may be URLs
}

func (d *decoder) request() error {
	if err := codec.Validate(d.turn.Body); err != nil {
		return d.syntax(err)
	}
	if d.s.Kind() != codec.Object {
		return pipeline.Invalid("", "the request body must be a JSON object")
	}
	var model, messages bool
	var maxTokens, maxCompletionTokens int64
	var effort, reasoning string
	sampling := &d.turn.Sampling
	for d.s.Object(); d.s.Key(); {
		var err error
		switch string(d.s.Name()) {
		case "model":
			d.turn.Model, err = d.text("model")
			model = true
		case "messages":
			d.turn.Messages, err = d.messages()
			messages = true
		case "tools":
			d.turn.Tools, err = d.tools()
		case "stream":
			d.turn.Stream, err = d.optionalBool("stream")
		case "temperature":
			sampling.Temperature, err = d.expect("temperature", "a number", codec.Number)
		case "top_p":
			sampling.TopP, err = d.expect("top_p", "a number", codec.Number)
		case "max_tokens":
			maxTokens, err = d.optionalInt("max_tokens")
		case "max_completion_tokens":
			maxCompletionTokens, err = d.optionalInt("max_completion_tokens")
		case "user":
			_, err = d.expect("user", "a string", codec.String)
		case "stop":
			sampling.Stop, err = d.stop()
		case "tool_choice":
			sampling.ToolChoice, err = d.expect("tool_choice", "a string or an object", codec.String, codec.Object)
		case "reasoning_effort":
			effort = d.lenientText()
		case "reasoning":
			reasoning = d.reasoningEffort()
		case "stream_options":
			err = d.streamOptions()
		default:
			d.s.Skip()
		}
		if err != nil {
			return err
		}
	}
	switch {
	case d.s.End() != nil:
		return d.syntax(d.s.Err())
	case !model:
		return pipeline.Invalid("model", "model is required: name one that GET /v1/models lists")
	case !messages:
		return pipeline.Invalid("messages", "messages is required")
	case len(d.turn.Messages) == 0:
		return pipeline.Invalid("messages", "messages must hold at least one message")
	}
	if sampling.MaxTokens = maxCompletionTokens; sampling.MaxTokens == 0 { // the newer name counts
		sampling.MaxTokens = maxTokens
	}
	if sampling.Effort = effort; effort == "" {
		sampling.Effort = reasoning
	}
	return nil
}

func (d *decoder) syntax(err error) error {
	var s codec.Scanner
	s.Reset(d.turn.Body)
	s.Raw()
	message := fmt.Sprintf("the request body is not valid JSON (at byte %d)", s.Offset())
	if errors.Is(err, codec.ErrDepth) {
		message = fmt.Sprintf("the request body is nested deeper than %d levels", codec.MaxDepth)
	}
	return &pipeline.Error{Code: pipeline.CodeInvalidRequest, Origin: pipeline.OriginClient, Message: message}
}

// text consumes a string that is required to be one and not empty.
func (d *decoder) text(param string) (string, error) {
	t, ok := d.s.Text()
	if !ok {
		return "", pipeline.Invalid(param, param+" must be a string")
	}
	if len(t) == 0 {
		return "", pipeline.Invalid(param, param+" must not be empty")
	}
	return t.String(), nil
}

// optionalText consumes a string or null.
func (d *decoder) optionalText(param string) (string, error) {
	if d.null() {
		return "", nil
	}
	t, ok := d.s.Text()
	if !ok {
		return "", pipeline.Invalid(param, param+" must be a string or null")
	}
	return t.String(), nil
}

func (d *decoder) optionalBool(param string) (*bool, error) {
	if d.null() {
		return nil, nil
	}
	v, ok := d.s.Bool()
	if !ok {
		return nil, pipeline.Invalid(param, param+" must be true, false or null")
	}
	return &v, nil
}

// optionalInt consumes a whole number of any size and sign, or null: some clients send -1 for no limit. What is out of the range
// of 32 bits comes as the nearest that is not.
func (d *decoder) optionalInt(param string) (int64, error) {
	if d.null() {
		return 0, nil
	}
	k := d.s.Kind()
	n, err := strconv.ParseFloat(string(d.s.Raw()), 64)
	if k != codec.Number || err != nil || n != math.Trunc(n) {
		return 0, pipeline.Invalid(param, param+" must be a whole number or null")
	}
	return int64(max(math.MinInt32, min(n, math.MaxInt32))), nil
}

// expect consumes a value of one of kinds, which it returns, or null, which is nil.
func (d *decoder) expect(param, what string, kinds ...codec.Kind) ([]byte, error) {
	k := d.s.Kind()
	raw := d.s.Raw()
	if k == codec.Null {
		return nil, nil
	}
	for _, want := range kinds {
		if k == want {
			return raw, nil
		}
	}
	return nil, pipeline.Invalid(param, param+" must be "+what+" or null")
}

func (d *decoder) stop() ([]string, error) {
	switch d.s.Kind() {
	case codec.Array:
	case codec.String:
		t, _ := d.s.Text()
		return []string{t.String()}, nil
	default:
		_, err := d.expect("stop", "a string, a list of strings")
		return nil, err
	}
	var list []string
	i := 0
	for d.s.Array(); d.s.Elem(); i++ {
		t, ok := d.s.Text()
		if !ok {
			return nil, pipeline.Invalid(index("stop", i), "stop must be a list of strings")
		}
		list = append(list, t.String())
	}
	return list, nil
}

func (d *decoder) streamOptions() error {
	if d.null() {
		return nil
	}
	if d.s.Kind() != codec.Object {
		return pipeline.Invalid("stream_options", "stream_options must be an object or null")
	}
	for d.s.Object(); d.s.Key(); {
		if string(d.s.Name()) != "include_usage" {
			d.s.Skip()
			continue
		}
		if _, err := d.optionalBool("stream_options.include_usage"); err != nil {
			return err
		}
	}
	return nil
}

// reasoningEffort reads {"effort": …}, which other APIs have in place of reasoning_effort. What is neither counts as absent, as
// clients put other things in there.
func (d *decoder) reasoningEffort() (effort string) {
	if d.s.Kind() != codec.Object {
		d.s.Skip()
		return ""
	}
	for d.s.Object(); d.s.Key(); {
		if string(d.s.Name()) == "effort" {
			effort = d.lenientText()
		} else {
			d.s.Skip()
		}
	}
	return effort
}

// null consumes the next value if it is null.
func (d *decoder) null() bool {
	if d.s.Kind() != codec.Null {
		return false
	}
	d.s.Skip()
	return true
}

// tools reads the client's tools. Entries that are not functions, or have no name, are skipped (rulings 19).
func (d *decoder) tools() ([]pipeline.ToolSpec, error) {
	if d.null() {
		return nil, nil
	}
	if d.s.Kind() != codec.Array {
		return nil, pipeline.Invalid("tools", "tools must be a list or null")
	}
	var tools []pipeline.ToolSpec
	i := 0
	for d.s.Array(); d.s.Elem(); i++ {
		if d.s.Kind() != codec.Object {
			d.s.Skip()
			continue
		}
		var tool pipeline.ToolSpec
		function := false
		for d.s.Object(); d.s.Key(); {
			switch string(d.s.Name()) {
			case "type":
				t, ok := d.s.Text()
				function = ok && t.String() == "function"
			case "function":
				if d.s.Kind() != codec.Object {
					d.s.Skip()
					continue
				}
				var err error
				if tool, err = d.function(index("tools", i) + ".function"); err != nil {
					return nil, err
				}
			default:
				d.s.Skip()
			}
		}
		if function && tool.Name != "" {
			tools = append(tools, tool)
		}
	}
	return tools, nil
}

func (d *decoder) function(param string) (t pipeline.ToolSpec, err error) {
	for d.s.Object(); d.s.Key() && err == nil; {
		switch string(d.s.Name()) {
		case "name":
			name, _ := d.s.Text()
			t.Name = name.String()
		case "description":
			t.Description, err = d.optionalText(param + ".description")
		case "parameters":
			switch d.s.Kind() {
			case codec.Null:
				d.s.Skip()
			case codec.Object:
				t.Parameters = d.s.Raw()
			default:
				err = pipeline.Invalid(param+".parameters", "parameters must be a JSON Schema object")
			}
		default:
			d.s.Skip()
		}
	}
	return t, err
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
