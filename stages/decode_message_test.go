package stages_test

import (
	"fmt"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
)

// line is one message in one line.
func line(m *pipeline.Message) string {
	var b strings.Builder
	b.WriteString(string(m.Role))
	for _, p := range m.Parts {
		if p.Image != "" {
			fmt.Fprintf(&b, " <%s %s>", p.MediaType, p.Image)
		} else {
			fmt.Fprintf(&b, " %q", p.Text)
		}
	}
	if m.Parts != nil && len(m.Parts) == 0 {
		b.WriteString(" ()")
	}
	for _, c := range m.ToolCalls {
		fmt.Fprintf(&b, " call=%s,%s,%s", c.ID, c.Name, c.Arguments)
	}
	if m.ToolCallID != "" {
		fmt.Fprintf(&b, " for=%s", m.ToolCallID)
	}
	if m.Name != "" {
		fmt.Fprintf(&b, " name=%s", m.Name)
	}
	if m.Reasoning != "" {
		fmt.Fprintf(&b, " reasoning=%q", m.Reasoning)
	}
	return b.String()
}

func TestDecodeMessage(t *testing.T) {
	const png = "data:image/png;base64,iVBORw0KGgo="
	for name, row := range map[string]struct{ in, want string }{
		"system":       {`{"role":"system","content":"s"}`, `system "s"`},
		"developer":    {`{"role":"developer","content":"d"}`, `developer "d"`},
		"user":         {`{"role":"user","content":"u","name":"ann"}`, `user "u" name=ann`},
		"order":        {`{"content":"u","x":{"role":"system"},"role":"user"}`, `user "u"`},
		"tool":         {`{"role":"tool","tool_call_id":"c1","content":"r","name":"f"}`, `tool "r" for=c1 name=f`},
		"empty text":   {`{"role":"user","content":""}`, `user ""`},
		"null":         {`{"role":"user","content":null,"name":null,"tool_call_id":null,"tool_calls":null}`, `user`},
		"no content":   {`{"role":"assistant"}`, `assistant`},
		"empty list":   {`{"role":"user","content":[]}`, `user ()`},
		"unicode":      {`{"role":"user","content":"na\u00efve \ud83d\ude00 東京 \u0000\t\"\\\/"}`, `user "naïve 😀 東京 \x00\t\"\\/"`},
		"lone halves":  {`{"role":"user","content":"a\ud800b\udc00\ud83d"}`, `user "a�b��"`},
		"bad UTF-8":    {"{\"role\":\"user\",\"content\":\"a\xff\xc3b\"}", `user "a��b"`},
		"breaks lines": {"{\"role\":\"user\",\"content\":\"a\u2028b\u0085\"}", `user "a\u2028b\u0085"`},

		"parts":         {`{"role":"user","content":[{"type":"text","text":"a"},{"text":"b","type":"text","cache_control":{"type":"ephemeral"}}]}`, `user "a" "b"`},
		"empty part":    {`{"role":"user","content":[{"type":"text","text":""},{"type":"text"},{"type":"text","text":null}]}`, `user "" "" ""`},
		"nulls in part": {`{"role":"user","content":[{"type":"text","text":"a","image_url":null,"refusal":null}]}`, `user "a"`},
		"refusal":       {`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"refusal":"x"}`, `assistant "no"`},
		"thinking":      {`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"reasoning","text":"hm"}]}`, `assistant "a"`},
		"image":         {`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"` + png + `","detail":"low"}}]}`, `user "see" <image/png ` + png + `>`},
		"image string":  {`{"role":"user","content":[{"type":"image_url","image_url":"` + png + `"}]}`, `user <image/png ` + png + `>`},
		"image, escape": {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,iVBORw0KGgo="}}]}`, `user <image/png ` + png + `>`},
		"image options": {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/svg+xml;charset=utf-8;base64,QQ=="}}]}`, `user <image/svg+xml data:image/svg+xml;base64,QQ==>`},
		"tool image":    {`{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"` + png + `"}}]}`, `tool <image/png ` + png + `> for=c`},

		"reasoning_content": {`{"role":"assistant","content":"a","reasoning_content":"r"}`, `assistant "a" reasoning="r"`},
		"reasoning":         {`{"role":"assistant","content":"a","reasoning":"r"}`, `assistant "a" reasoning="r"`},
		"both":              {`{"role":"assistant","content":"a","reasoning":"x","reasoning_content":"r"}`, `assistant "a" reasoning="r"`},
		"one empty":         {`{"role":"assistant","content":"a","reasoning_content":"","reasoning":"r"}`, `assistant "a" reasoning="r"`},
		"odd reasoning":     {`{"role":"assistant","content":"a","reasoning_content":null,"reasoning":{"effort":"low"}}`, `assistant "a"`},
		"user reasoning":    {`{"role":"user","content":"a","reasoning_content":"r"}`, `user "a"`},
		"calls": {`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","index":0,"function":{"name":"f","arguments":"{\"a\":1}"}},{"function":{"arguments":"{}","name":"g"},"id":"c2"}]}`,
			`assistant call=c1,f,{"a":1} call=c2,g,{}`},
		"no calls":   {`{"role":"assistant","content":"a","tool_calls":[]}`, `assistant "a"`},
		"user calls": {`{"role":"user","content":"a","tool_calls":[{"id":"c1","function":{"name":"f"}}]}`, `user "a"`},
		"same ids":   {`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}},{"id":"c","function":{"name":"f"}}]}`, `assistant call=c,f,{} call=c,f,{}`},
	} {
		t.Run(name, func(t *testing.T) {
			turn, err := decode(t, `{"model":"m","messages":[`+row.in+`]}`)
			if err != nil {
				t.Fatal(err)
			}
			if got := line(&turn.Messages[0]); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// TestDecodeArguments checks what becomes of the arguments of a call in the history: an object stays byte for byte.
func TestDecodeArguments(t *testing.T) {
	for in, want := range map[string]string{
		`"{}"`:                                   `{}`,
		`""`:                                     `{}`,
		`" \n"`:                                  `{}`,
		`null`:                                   `{}`,
		`"null"`:                                 `{}`,
		`"{\"b\":1,\"a\":2,\"b\":3}"`:            `{"b":1,"a":2,"b":3}`,
		`"{ \"a\" :\t[ 1 ] }\n"`:                 "{ \"a\" :\t[ 1 ] }\n",
		`"{\"id\":9223372036854775807}"`:         `{"id":9223372036854775807}`,
		`"{\"id\":123456789012345678901234567}"`: `{"id":123456789012345678901234567}`,
		`"{\"n\":[1.0,1e2,-0,0.10,1E+2]}"`:       `{"n":[1.0,1e2,-0,0.10,1E+2]}`,
		`"{\"u\":\"\\u00e9\\/é\"}"`:              `{"u":"\u00e9\/é"}`,
		`"{\"u\":\"\ud83d\ude00\"}"`:             `{"u":"😀"}`,
		`{"a": 9223372036854775807, "b":1.0}`:    `{"a": 9223372036854775807, "b":1.0}`,
		`"{\"cmd\":\"rm -rf /tm"`:                `{"_raw_arguments":"{\"cmd\":\"rm -rf /tm"}`,
		`"{} x"`:                                 `{"_raw_arguments":"{} x"}`,
		`"{'a':1}"`:                              `{"_raw_arguments":"{'a':1}"}`,
		`"plain text\n\"q\""`:                    `{"_raw_arguments":"plain text\n\"q\""}`,
		`"[1,2]"`:                                `{"_raw_arguments":"[1,2]"}`,
		`"7"`:                                    `{"_raw_arguments":"7"}`,
		`"nul"`:                                  `{"_raw_arguments":"nul"}`,
		`[1, 2]`:                                 `{"_raw_arguments":"[1, 2]"}`,
		`7`:                                      `{"_raw_arguments":"7"}`,
		`true`:                                   `{"_raw_arguments":"true"}`,
		`"\ud800"`:                               `{"_raw_arguments":"` + "\uFFFD" + `"}`,
		`"` + strings.Repeat(`{\"a\":`, 1000) + `"`: `{"_raw_arguments":"` + strings.Repeat(`{\"a\":`, 1000) + `"}`,
	} {
		body := `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":` + in + `}}]}]}`
		turn, err := decode(t, body)
		if err != nil {
			t.Errorf("%.80s: %v", in, err)
			continue
		}
		if got := string(turn.Messages[0].ToolCalls[0].Arguments); got != want {
			t.Errorf("%.80s\ngot  %.200s\nwant %.200s", in, got, want)
		}
	}
}

func TestDecodeMessageRefused(t *testing.T) {
	image := func(url string) string {
		return `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":` + url + `}}]}`
	}
	calls := func(s string) string { return `{"role":"assistant","tool_calls":[` + s + `]}` }
	const url = "content[1].image_url.url"
	for name, row := range map[string]struct{ in, param string }{
		"no object":       {`"hi"`, ""},
		"null":            {`null`, ""},
		"no role":         {`{"content":"hi"}`, "role"},
		"role null":       {`{"role":null,"content":"hi"}`, "role"},
		"role number":     {`{"role":1,"content":"hi"}`, "role"},
		"role unknown":    {`{"role":"function","content":"hi"}`, "role"},
		"role in capital": {`{"role":"User","content":"hi"}`, "role"},
		"content number":  {`{"role":"user","content":5}`, "content"},
		"content object":  {`{"role":"user","content":{"type":"text","text":"x"}}`, "content"},
		"content bool":    {`{"role":"user","content":true}`, "content"},
		"part text":       {`{"role":"user","content":["x"]}`, "content[0]"},
		"part null":       {`{"role":"user","content":[{"type":"text","text":"x"},null]}`, "content[1]"},
		"part no type":    {`{"role":"user","content":[{"text":"x"}]}`, "content[0].type"},
		"part type":       {`{"role":"user","content":[{"type":5}]}`, "content[0].type"},
		"part kind":       {`{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`, "content[0].type"},
		"name":            {`{"role":"user","content":"x","name":5}`, "name"},
		"tool without id": {`{"role":"tool","content":"x"}`, "tool_call_id"},
		"tool null id":    {`{"role":"tool","content":"x","tool_call_id":null}`, "tool_call_id"},
		"tool empty id":   {`{"role":"tool","content":"x","tool_call_id":""}`, "tool_call_id"},
		"tool number id":  {`{"role":"tool","content":"x","tool_call_id":7}`, "tool_call_id"},

		"calls object":   {`{"role":"assistant","tool_calls":{}}`, "tool_calls"},
		"call text":      {calls(`"x"`), "tool_calls[0]"},
		"call no id":     {calls(`{"function":{"name":"f"}}`), "tool_calls[0].id"},
		"call empty id":  {calls(`{"id":"","function":{"name":"f"}}`), "tool_calls[0].id"},
		"call null id":   {calls(`{"id":null,"function":{"name":"f"}}`), "tool_calls[0].id"},
		"call no func":   {calls(`{"id":"c"}`), "tool_calls[0].function.name"},
		"call null func": {calls(`{"id":"c","function":null}`), "tool_calls[0].function"},
		"call no name":   {calls(`{"id":"a","function":{"name":"f"}},{"id":"c","function":{"arguments":"{}"}}`), "tool_calls[1].function.name"},
		"call bad name":  {calls(`{"id":"c","function":{"name":5}}`), "tool_calls[0].function.name"},

		"image no url":     {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}`, url},
		"image null":       {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":null}]}`, url},
		"image empty":      {image(`""`), url},
		"image number":     {image(`5`), url},
		"image field":      {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":5}]}`, "content[1].image_url"},
		"remote":           {image(`"https://example.com/a.png"`), url},
		"file":             {image(`"file:///etc/passwd"`), url},
		"private":          {image(`"http://169.254.169.254/latest"`), url},
		"no base64":        {image(`"data:image/png,abc"`), url},
		"not base64":       {image(`"data:image/png;base64,ab*d"`), url},
		"url-safe":         {image(`"data:image/png;base64,ab-_"`), url},
		"line break":       {image(`"data:image/png;base64,AAAA\nAAAA"`), url},
		"one letter":       {image(`"data:image/png;base64,AAAAA"`), url},
		"padding alone":    {image(`"data:image/png;base64,===="`), url},
		"too much padding": {image(`"data:image/png;base64,AAAA===="`), url},
		"odd padding":      {image(`"data:image/png;base64,AA="`), url},
		"padding inside":   {image(`"data:image/png;base64,AA==AAAA"`), url},
		"no data":          {image(`"data:image/png;base64,"`), url},
		"no comma":         {image(`"data:image/png;base64"`), url},
		"wildcard":         {image(`"data:image/*;base64,AAAA"`), url},
		"no subtype":       {image(`"data:image/;base64,AAAA"`), url},
		"no media type":    {image(`"data:;base64,AAAA"`), url},
		"another kind":     {image(`"data:text/html;base64,AAAA"`), url},
		"wrapped twice":    {image(`"data:image/png;base64,data:image/png;base64,AAAA"`), url},
	} {
		t.Run(name, func(t *testing.T) {
			at := "messages[1]"
			if row.param != "" {
				at += "." + row.param
			}
			invalid(t, `{"model":"m","messages":[{"role":"user","content":"first"},`+row.in+`]}`, at)
		})
	}
}
