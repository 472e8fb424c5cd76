package cli

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/charts/svg"
	"github.com/rooflab/rooflab/kernel"
	"github.com/rooflab/rooflab/kernel/compiled"
	"github.com/rooflab/rooflab/kernel/serve"
)

func newKernelRun() *cobra.Command {
	var o compiled.Options
	cmd := &cobra.Command{
		Use:   "run CONNECTION_FILE",
		Short: "Run cells for a notebook (Jupyter starts this)",
		Long: `Run cells for a notebook: the compiled engine. Jupyter starts this; kernel install writes how.

Two variables of the environment count. ROOFLAB_KERNEL_REPLAY=1: cells that ran are run again after the death of the
process in which they run. ROOFLAB_MEMORY_LIMIT: how much memory that process may use, in bytes or as 8G; 0 is no limit.
Without it, it is nine tenths of what is free.`,
		Example: "  rooflab kernel run connection.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Replay = os.Getenv("ROOFLAB_KERNEL_REPLAY") == "1"
			server, err := serve.Listen(args[0])
			if err != nil {
				return err
			}
			server.Enrich = withPicture
			if o.Dir, err = os.Getwd(); err != nil { // Jupyter starts kernels in the notebook's folder
				return fmt.Errorf("find the notebook's folder: %w", err)
			}
			o.Sources = kernel.Sources
			server.Serve(compiled.Describe(o.Go), func(ctx context.Context) (serve.Engine, error) {
				return compiled.New(ctx, o)
			})
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Go, "go", "", "the go command (default: the one on PATH)")
	f.StringVar(&o.Source, "source", "", "root folder of a rooflab checkout whose packages cells may import")
	return cmd
}

// withPicture gives a chart its picture. When it cannot be drawn, the text says why.
func withPicture(b serve.Bundle) serve.Bundle {
	data := maps.Clone(b.Data)
	if err := svg.Enrich(data); err != nil {
		data["text/plain"] = fmt.Sprintf("%v\n(no picture: %v)", data["text/plain"], err)
	}
	b.Data = data
	return b
}
