package stages_test

import (
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

func TestAuth(t *testing.T) {
	const (
		missing = "Missing or malformed Authorization header"
		invalid = "Invalid API key"
	)
	for name, row := range map[string]struct {
		fields []string
		want   string // message, "" if admitted
	}{
		"exact":             {[]string{"Bearer s3cret"}, ""},
		"lower case":        {[]string{"bearer s3cret"}, ""},
		"upper case":        {[]string{"BEARER s3cret"}, ""},
		"several spaces":    {[]string{"Bearer    s3cret"}, ""},
		"space around":      {[]string{"  Bearer s3cret \t"}, ""},
		"none":              {nil, missing},
		"empty":             {[]string{""}, missing},
		"scheme alone":      {[]string{"Bearer"}, missing},
		"no token":          {[]string{"Bearer   "}, missing},
		"no space":          {[]string{"Bearers3cret"}, missing},
		"tab":               {[]string{"Bearer\ts3cret"}, missing},
		"token alone":       {[]string{"s3cret"}, missing},
		"basic":             {[]string{"Basic s3cret"}, missing},
		"longer scheme":     {[]string{"Bearers s3cret"}, missing},
		"two fields":        {[]string{"Bearer s3cret", "Bearer s3cret"}, missing},
		"two, one wrong":    {[]string{"Bearer wrong", "Bearer s3cret"}, missing},
		"wrong":             {[]string{"Bearer wrong"}, invalid},
		"prefix":            {[]string{"Bearer s3cre"}, invalid},
		"longer":            {[]string{"Bearer s3crett"}, invalid},
		"key in other case": {[]string{"Bearer S3CRET"}, invalid},
		"two tokens":        {[]string{"Bearer s3cret s3cret"}, invalid},
		"list":              {[]string{"Bearer s3cret, Bearer s3cret"}, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			err := stages.Auth("s3cret").Request(t.Context(), &pipeline.Turn{Header: pipeline.Header{Authorization: row.fields}})
			switch row.want {
			case "":
				if err != nil {
					t.Errorf("refused: %v", err)
				}
			case missing:
				wantError(t, err, pipeline.CodeMissingAuth, "", missing)
			case invalid:
				wantError(t, err, pipeline.CodeInvalidKey, "", invalid)
			}
		})
	}
}

// TestAuthEmptyKey checks that a server without a key admits nobody, whatever they send.
func TestAuthEmptyKey(t *testing.T) {
	for _, field := range []string{"Bearer", "Bearer ", "Bearer  ", "Bearer x"} {
		if stages.Auth("").Request(t.Context(), &pipeline.Turn{Header: pipeline.Header{Authorization: []string{field}}}) == nil {
			t.Errorf("%q was admitted", field)
		}
	}
}
