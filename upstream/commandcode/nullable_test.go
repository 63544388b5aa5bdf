package commandcode

import (
	"strings"
	"testing"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

func TestNullable(t *testing.T) {
	const same = "" // byte for byte
	for schema, want := range map[string]string{
		`{"type":["string","null"]}`:                       `{"type":"string","nullable":true}`,
		`{ "type" : [ "null" , "string" ], "x": 1.50 }`:    `{"type":"string","x":1.50,"nullable":true}`,
		`{"type":["string","null","number"]}`:              `{"type":["string","number"],"nullable":true}`,
		`{"type":["null"]}`:                                same,
		`{"type":"null"}`:                                  same,
		`{ "type": "object", "description": "or null" }`:   same,
		`{"type":["string","null"],"nullable":false}`:      `{"type":"string","nullable":true}`,
		`{"type":["string","null"],"enum":["a",null,"b"]}`: `{"type":"string","enum":["a","b"],"nullable":true}`,
		`{"type":["string","null"],"enum":[null]}`:         `{"type":"string","enum":[null],"nullable":true}`,
		`{"enum":["a",null]}`:                              same,
		`{"type":["string","null"],"default":null}`:        `{"type":"string","default":null,"nullable":true}`,

		`{"anyOf":[{"type":"string","minLength":1},{"type":"null"}],"title":"T"}`:                                    `{"type":"string","minLength":1,"title":"T","nullable":true}`,
		`{"title":"T","anyOf":[{"type":"null","title":"none"},{"title":"own","$ref":"#/$defs/x"}]}`:                  `{"title":"T","$ref":"#/$defs/x","nullable":true}`,
		`{"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"}]}`:                                            `{"anyOf":[{"type":"string"},{"type":"number"}],"nullable":true}`,
		`{"oneOf":[{"type":"null"},{"type":["integer","null"]}]}`:                                                    `{"type":"integer","nullable":true}`,
		`{"anyOf":[{"type":"null"},{"type":["integer","null"]},{"type":"string"}]}`:                                  `{"anyOf":[{"type":"integer","nullable":true},{"type":"string"}],"nullable":true}`,
		`{"anyOf":[{"type":"null"},true]}`:                                                                           `{"anyOf":[true],"nullable":true}`,
		`{"anyOf":[{"type":"null"}]}`:                                                                                same,
		`{"anyOf":[{"type":"string"},{"type":"number"}],"x":null}`:                                                   same,
		`{"type":["object","null"],"anyOf":[{"required":["a"]},{"required":["b"]}]}`:                                 `{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"nullable":true}`,
		`{"anyOf":[{"anyOf":[{"type":"string"},{"type":"number"}]},{"type":"null"}],"title":"T"}`:                    `{"anyOf":[{"type":"string"},{"type":"number"}],"title":"T","nullable":true}`,
		`{"anyOf":[{"type":"string"},{"type":"null"}],"oneOf":[{"type":"null"},{"type":"string","minLength":1}]}`:    `{"type":"string","minLength":1,"nullable":true}`,
		`{"allOf":[{"type":["string","null"]}]}`:                                                                     `{"allOf":[{"type":"string","nullable":true}]}`,
		`{"properties":{"type":{"type":["string","null"]},"anyOf":{"type":"string"}}}`:                               `{"properties":{"type":{"type":"string","nullable":true},"anyOf":{"type":"string"}}}`,
		`{"items":{"type":["string","null"]},"prefixItems":[{"type":["string","null"]}]}`:                            `{"items":{"type":"string","nullable":true},"prefixItems":[{"type":"string","nullable":true}]}`,
		`{"$defs":{"é":{"type":["string","null"]}},"additionalProperties":false}`:                                    `{"$defs":{"é":{"type":"string","nullable":true}},"additionalProperties":false}`,
		`{"properties":{"a":{"properties":{"b":{"anyOf":[{"type":"null"},{"items":{"type":["number","null"]}}]}}}}}`: `{"properties":{"a":{"properties":{"b":{"items":{"type":"number","nullable":true},"nullable":true}}}}}`,
		`{"additionalProperties":{"type":["string","null"]}}`:                                                        `{"additionalProperties":{"type":"string","nullable":true}}`,

		// What looks like a schema where none stands is data.
		`{"default":{"type":["string","null"]},"const":{"anyOf":[{"type":"null"},1]},"examples":[{"type":["a","null"]}],"enum":[{"type":["a","null"]}]}`: same,
		`{"x-own":{"type":["string","null"]}}`:        same,
		`{"properties":[{"type":["string","null"]}]}`: same,
		`{"type":["string","null"`:                    same, `null`: same, `["null"]`: same, ``: same,
	} {
		if want == same {
			want = schema
		}
		got := string(nullable([]byte(schema)))
		if got != want {
			t.Errorf("%s\n is %s\nnot %s", schema, got, want)
		}
		if codec.Validate([]byte(schema)) == nil && codec.Validate([]byte(got)) != nil {
			t.Errorf("%s is no JSON", got)
		}
		if again := string(nullable([]byte(got))); again != got {
			t.Errorf("%s becomes %s", got, again)
		}
	}
	if long := `{"type":["string","null"],"x":"` + strings.Repeat("x", maxSchemaBytes) + `"}`; string(nullable([]byte(long))) != long {
		t.Error("a schema that is too long was rewritten")
	}
	large := []byte(`{"type":["string","null"],"x":"` + strings.Repeat("x", maxSchemaBytes-40) + `"}`)
	many := make([]pipeline.ToolSpec, 2*maxSchemasBytes/maxSchemaBytes)
	for i := range many {
		many[i].Parameters = large
	}
	for i, tool := range nullableTools(many) {
		if rewritten := string(tool.Parameters) != string(large); rewritten != (i < len(many)/2) {
			t.Errorf("schema %d of %d: rewritten %v", i, len(many), rewritten)
		}
	}
	deep := strings.Repeat(`{"items":`, codec.MaxDepth-2) + `{"type":["string","null"]}` + strings.Repeat("}", codec.MaxDepth-2)
	if got := string(nullable([]byte(deep))); !strings.Contains(got, `{"type":"string","nullable":true}`) {
		t.Errorf("%.300s", got)
	}
}

// FuzzNullable: what was valid stays valid, and is rewritten once.
func FuzzNullable(f *testing.F) {
	for _, schema := range []string{`{"type":["string","null"]}`, `{"anyOf":[{"type":"null"},{"items":{"oneOf":[{"type":"null"},true]}}],"nullable":1}`, `{"properties":{"a":{"enum":[null]}}}`, `["null",{}]`, `{"type":[null,"null"]}`} {
		f.Add([]byte(schema))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		once := nullable(schema)
		if codec.Validate(schema) != nil {
			if string(once) != string(schema) {
				t.Errorf("%q becomes %q", schema, once)
			}
			return
		}
		if err := codec.Validate(once); err != nil {
			t.Errorf("%q becomes %q: %v", schema, once, err)
		}
		if twice := nullable(once); string(twice) != string(once) {
			t.Errorf("%q becomes %q, then %q", schema, once, twice)
		}
	})
}
