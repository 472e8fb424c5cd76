package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/units"
)

func newArchive() *cobra.Command {
	var verify bool
	cmd := &cobra.Command{
		Use:   "archive DIR [DEST]",
		Short: "Hash a campaign's files into its manifest, or copy the campaign to an archive",
		Long: `Write DIR/manifest.json with the sha256 of every file, or copy the campaign to DEST with such a manifest.

It refuses files that hold a token, a private key or the name of this host. With --verify it writes nothing and
compares the files with the manifest.`,
		Example: `  rooflab archive my-campaign data/campaigns/my-campaign
  rooflab archive --verify data/campaigns/h200x2-kimi-k2.5-int4`,
		Args:    cobra.RangeArgs(1, 2),
		PreRunE: stopAtOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			if verify {
				if len(args) == 2 {
					return usagef("--verify takes one folder")
				}
				if err := campaign.Verify(args[0]); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "all files are as the manifest says")
				return nil
			}
			dest := args[0]
			if len(args) == 2 {
				dest = args[1]
			}
			c, err := campaign.Archive(args[0], dest)
			if err != nil {
				return err
			}
			var bytes int64
			for _, f := range c.Files {
				bytes += f.Bytes
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files, %s, %d runs\n", c.ID, len(c.Files), units.Bytes(bytes), len(c.Runs))
			return nil
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "only compare the files with the manifest")
	return cmd
}
