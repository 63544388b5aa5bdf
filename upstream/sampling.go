package upstream

import (
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// AppendSampling appends the client's settings as further members of an object, by the names that the client uses and with numbers
// as it wrote them: temperature, top_p and stop, as far as they are set.
func AppendSampling(dst []byte, s *pipeline.Sampling) []byte {
	if s.Temperature != nil {
		dst = append(append(dst, `,"temperature":`...), s.Temperature...)
	}
	if s.TopP != nil {
		dst = append(append(dst, `,"top_p":`...), s.TopP...)
	}
	for i, stop := range s.Stop {
		if i == 0 {
			dst = append(dst, `,"stop":[`...)
		} else {
			dst = append(dst, ',')
		}
		if dst = codec.AppendString(dst, stop); i == len(s.Stop)-1 {
			dst = append(dst, ']')
		}
	}
	return dst
}

// ToolChoice reads a client's tool_choice: the word that it is, or the function that it names. Both are "" for what says neither.
func ToolChoice(choice []byte) (word, function string) {
	if choice == nil {
		return "", ""
	}
	var s codec.Scanner
	s.Reset(choice)
	if text, ok := s.Text(); ok {
		return text.String(), ""
	}
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if codec.Unmarshal(choice, &named) != nil {
		return "", ""
	}
	return "", named.Function.Name
}
