package secret_test

import (
	"encoding/json"
	"testing"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/secret"
)

func TestJSON(t *testing.T) {
	for given, want := range map[string]string{
		// Names.
		`{"api_key":"x"}`:                          `{"api_key":"***"}`,
		`{ "apiKey" : "x" , "a" : 1.50 }`:          `{ "apiKey" : "***" , "a" : 1.50 }`,
		`{"APIKEY":"x","key":"x","Key":"x"}`:       `{"APIKEY":"***","key":"***","Key":"***"}`,
		`{"token":"x","accessToken":"x"}`:          `{"token":"***","accessToken":"***"}`,
		`{"client_secret":"x","secrets":{"a":1}}`:  `{"client_secret":"***","secrets":"***"}`,
		`{"password":"x","PASSWD":"x"}`:            `{"password":"***","PASSWD":"***"}`,
		`{"password":12345,"token":1,"pin key":1}`: `{"password":"***","token":"***","pin key":"***"}`,
		`{"Proxy-Authorization":"Basic eA=="}`:     `{"Proxy-Authorization":"***"}`,
		`{"\u006bey":"x"}`:                         `{"\u006bey":"***"}`,
		`{"keys":["a","b"],"tokens":["a"]}`:        `{"keys":"***","tokens":"***"}`,
		`{"key":{"a":{"b":"x"}}}`:                  `{"key":"***"}`,
		`[{"a":[{"b":{"key":"x"}}]}]`:              `[{"a":[{"b":{"key":"***"}}]}]`,
		`{"headers":{"X-A":"x","X-B":["x"]}}`:      `{"headers":{"X-A":"***","X-B":"***"}}`,
		`{"extra_headers":{"a":1},"headers":"x"}`:  `{"extra_headers":{"a":"***"},"headers":"x"}`,
		`{"env":{"GITHUB_TOKEN":"x","LANG":"C"}}`:  `{"env":{"GITHUB_TOKEN":"***","LANG":"C"}}`,

		// What is no credential.
		`{"key":null,"token":"","secret":false}`:             `{"key":null,"token":"","secret":false}`,
		`{"max_tokens":100,"maxTokens":1,"token_limit":2}`:   `{"max_tokens":100,"maxTokens":1,"token_limit":2}`,
		`{"keyboard":"x","tokenizer":"x","author":"x"}`:      `{"keyboard":"x","tokenizer":"x","author":"x"}`,
		`{"base_url":"http://127.0.0.1:8000/v1?a=b#c@d"}`:    `{"base_url":"http://127.0.0.1:8000/v1?a=b#c@d"}`,
		`{"default_model":"vendor/model@1","x":"basically"}`: `{"default_model":"vendor/model@1","x":"basically"}`,
		` 5 `: ` 5 `, `null`: `null`, `"x"`: `"x"`, `[]`: `[]`, `{}`: `{}`,

		// Inside strings.
		`"http://user:p@ss@host/x"`:                  `"http://***@host/x"`,
		`"git+https:\/\/token@host"`:                 `"git+https://***@host"`,
		`"http://h/?a=1&api_key=x&b=2"`:              `"http://h/?a=1&api_key=***&b=2"`,
		`"http://h/?code=x&sig=y&Signature=z&v=1"`:   `"http://h/?code=***&sig=***&Signature=***&v=1"`,
		`"the code=5 of it"`:                         `"the code=5 of it"`,
		`["a://u:p@h","b"]`:                          `["a://***@h","b"]`,
		`["--api-key","x","--model","y"]`:            `["--api-key","***","--model","y"]`,
		`["--api-key=x y","-e","X_TOKEN=x","A=b"]`:   `["--api-key=***","-e","X_TOKEN=***","A=b"]`,
		`["-H","Authorization: Bearer x","-H","b"]`:  `["-H","Authorization: ***","-H","b"]`,
		`{"value":"Bearer x","o":"use bearer abc."}`: `{"value":"Bearer ***","o":"use bearer ***"}`,

		// What is no JSON.
		``: `"***"`, `{"key":"x"`: `"***"`, `{"a":"x"} y`: `"***"`, `{"key":"x","a":nope}`: `"***"`,
	} {
		if got := string(secret.JSON([]byte(given))); got != want {
			t.Errorf("%s\n got %s\nwant %s", given, got, want)
		}
	}
}

// FuzzJSON: what comes out is JSON, and there is nothing left to mask in it.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"api_key":"x","headers":{"a":[1]},"u":"http://a:b@c?key=d","l":["--token","x","KEY=y"]}`))
	f.Add([]byte(`["key: Bearer x", "Basic\u0020x", {"a":{"key":{}}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if codec.Validate(data) != nil {
			return
		}
		got := secret.JSON(data)
		if !json.Valid(got) {
			t.Fatalf("%s: got %s", data, got)
		}
		if again := secret.JSON(got); string(again) != string(got) {
			t.Fatalf("%s\nis %s\nis %s", data, got, again)
		}
	})
}
