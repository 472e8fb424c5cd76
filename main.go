// Command rooflab profiles LLM inference servers with Go notebooks and publishes the findings as a static site.
package main

import (
	"os"

	"github.com/rooflab/rooflab/internal/cli"
)

func main() {
	err := cli.Run(os.Stdin, os.Stdout, os.Stderr, os.Args[1:])
	os.Exit(cli.ExitCode(err))
}
