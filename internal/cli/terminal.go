package cli

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// stopAtOnce is the PreRunE of commands that leave nothing to finish: Ctrl-C ends them as it ends any program, also
// in the middle of a large file or of a pipe that stays silent.
func stopAtOnce(cmd *cobra.Command, _ []string) error {
	signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return cmd.Context().Err() // of a signal that came before
}

// plain makes a text safe for a terminal: names of files, GPU kernels and devices may hold escape codes.
func plain(text string) string {
	odd := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }
	if strings.IndexFunc(text, odd) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if odd(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
