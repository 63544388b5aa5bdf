package main

import "amplifier-agent/pipeline/config"

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

// credentials are the variables without which the server could not be started again. The simulator needs none.
func (o serveOptions) credentials() []string {
	if o.demo {
		return nil
	}
	return credentialVariables
}
