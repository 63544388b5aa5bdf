package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version that a release build sets with -ldflags.
var release = "0.1.0-dev"

func version() string { return release }

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			revision := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = " " + s.Value[:min(12, len(s.Value))]
					}
				}
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "amplifier-agent %s%s %s %s/%s\n", version(), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
