package main

import (
	"slices"
	"strings"

	"amplifier-agent/pipeline/config"
)

// The variables that a server is made from besides AMPLIFIER_AGENT_*, for its launch file (lifecycle.Launch). One that a provider or
// the discovery of modes and skills begins to read belongs in one of these lists, or a restart does not know of it.
var (
	settingVariables = append(addressVariables,
		"AMPLIFIER_SKILLS_DIR",
		"CMD_ZDR", "COMMANDCODE_BASE_URL", "COMMANDCODE_SURFACE", "COMMANDCODE_VERSION", "ANTHROPIC_BASE_URL",
		"HOME", "USERPROFILE", // the user's folder; the second one is Windows'
		"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
	)
	credentialVariables, addressVariables = config.CredentialVariables()
)

// variables are the settings and the credentials of a server. An address that holds a password, or a query that may, is a credential.
func (o serveOptions) variables(env func(string) string) (settings, credentials []string) {
	credentials = o.credentials()
	for _, name := range settingVariables {
		if v := env(name); isAddress(name) && strings.ContainsAny(v, "@?") {
			if !o.demo {
				credentials = append(credentials, name)
			}
			continue
		}
		settings = append(settings, name)
	}
	return settings, credentials
}

// isAddress reports whether a variable holds an address.
func isAddress(name string) bool {
	for _, end := range []string{"_URL", "_HOST", "_ENDPOINT", "_PROXY"} {
		if strings.HasSuffix(strings.ToUpper(name), end) {
			return true
		}
	}
	return false
}

// credentials are the variables without which the server could not be started again. The simulator needs none.
func (o serveOptions) credentials() []string {
	if o.demo {
		return nil
	}
	return slices.Clone(credentialVariables)
}
