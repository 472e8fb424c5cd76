package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/campaign/target"
)

// connection is how a command reaches a server and the machine that it runs on.
type connection struct {
	target, host, traceDir     string
	apiKey, apiKeyFile, caFile string
}

func (c *connection) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.target, "target", "", "`URL` of the server, or replay:DIR")
	f.StringVar(&c.host, "host", "", "`HOST` where the server runs: "+target.Forms+" (default: this machine, or $ROOFLAB_HOST)")
	f.StringVar(&c.traceDir, "trace-dir", "", "`DIR` where the server writes its profiles, seen from the host (default: what its command line says)")
	c.access(cmd)
}

// access are the flags of a command that knows the server from elsewhere.
func (c *connection) access(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.apiKey, "api-key", "", "API `KEY` of the server; others see it in the list of processes, so rather set ROOFLAB_API_KEY")
	f.StringVar(&c.apiKeyFile, "api-key-file", "", "`FILE` that holds the API key")
	f.StringVar(&c.caFile, "ca-file", "", "PEM `FILE` of an authority to trust for https")
}

// export hands the key and the authority to what is started, which finds them in the environment and writes them nowhere.
func (c *connection) export() error {
	if c.apiKey != "" && c.apiKeyFile != "" {
		return usagef("give --api-key or --api-key-file, not both")
	}
	if _, err := target.FromEnv(c.host); err != nil {
		return usagef("--host: %v", err)
	}
	for _, v := range []struct{ name, value string }{
		{"ROOFLAB_API_KEY", c.apiKey}, {"ROOFLAB_API_KEY_FILE", c.apiKeyFile}, {"ROOFLAB_CA_FILE", c.caFile}, {"ROOFLAB_HOST", c.host},
	} {
		if v.value == "" {
			continue
		}
		value := v.value
		if v.name == "ROOFLAB_API_KEY_FILE" || v.name == "ROOFLAB_CA_FILE" {
			abs, err := filepath.Abs(value) // cells work in another folder
			if err != nil {
				return err
			}
			value = abs
		}
		if err := os.Setenv(v.name, value); err != nil {
			return fmt.Errorf("set %s: %w", v.name, err)
		}
	}
	if c.apiKeyFile != "" {
		return os.Unsetenv("ROOFLAB_API_KEY") // the flag counts
	}
	return nil
}
