package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/sitegen"
)

func newSite() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "site",
		Short: "Publish a campaign as a static site that opens from a folder",
		Example: `  rooflab site build data/campaigns/h200x2-kimi-k2.5-int4 -o site
  rooflab site check site`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSiteBuild(), newSiteServe(), newSiteCheck())
	return cmd
}

func newSiteBuild() *cobra.Command {
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "build CAMPAIGN",
		Short: "Build the site of a campaign folder",
		Long: `Build reads the executed notebooks and the manifest of a campaign and writes the site.
It runs nothing and loads nothing. A link that leads nowhere stops it before anything is written;
a notebook that cannot be read has no page, and the command exits with 1 after it wrote the others.`,
		Example: `  rooflab site build data/campaigns/h200x2-kimi-k2.5-int4 -o site
  xdg-open site/index.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := sitegen.Build(cmd.Context(), sitegen.Options{In: args[0], Out: out})
			if len(r.Pages) == 0 {
				return err
			}
			if asJSON {
				if encoding := json.NewEncoder(cmd.OutOrStdout()).Encode(r); encoding != nil {
					return encoding
				}
				return err
			}
			for _, w := range r.Warnings {
				if err != nil && w.ID == "notebook_unreadable" {
					continue // the error names it
				}
				fmt.Fprintln(cmd.ErrOrStderr(), plain(fmt.Sprintf("%s: %s", w.Severity, w)))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d pages, %d files; open %s/index.html\n", out, len(r.Pages), r.Files, out)
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "site", "folder of the site")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print pages, number of files and warnings as JSON")
	return cmd
}

func newSiteServe() *cobra.Command {
	var out string
	var port int
	cmd := &cobra.Command{
		Use:     "serve CAMPAIGN",
		Short:   "Serve the site on this machine and rebuild it when the campaign changes",
		Example: "  rooflab site serve data/campaigns/h200x2-kimi-k2.5-int4 --port 8000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := sitegen.Listen(cmd.Context(), sitegen.Options{In: args[0], Out: out}, port, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s (Ctrl-C ends it)\n", s.URL())
			return s.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "site-live", "folder of the served site; its pages reload themselves, so publish what build writes")
	cmd.Flags().IntVar(&port, "port", 0, "port on 127.0.0.1; 0 takes a free one")
	return cmd
}

func newSiteCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check SITE",
		Short: "Check a built site: links, anchors, ids, nothing loaded from outside",
		Long: `Check reads the pages of a site and reports links and anchors that lead nowhere, ids used twice,
inline scripts and styles, and whatever would be loaded from another host. It exits with 1 when it finds something.`,
		Example: "  rooflab site check site",
		Args:    cobra.ExactArgs(1),
		PreRunE: stopAtOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := sitegen.Check(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				if found == nil {
					found = []diag.Diagnostic{}
				}
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(found); err != nil {
					return err
				}
			} else {
				for _, d := range found {
					fmt.Fprintln(cmd.OutOrStdout(), plain(d.String()))
				}
			}
			if len(found) > 0 {
				return fmt.Errorf("check site %s: %d findings", args[0], len(found))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}
