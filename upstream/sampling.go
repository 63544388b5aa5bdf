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
