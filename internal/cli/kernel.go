package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/internal/texttab"
	"github.com/rooflab/rooflab/kernel"
)

func newKernel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernel",
		Short: "Install and check the Go kernel for Jupyter",
		Example: `  rooflab kernel install
  rooflab kernel doctor`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKernelInstall(), newKernelDoctor(), newKernelList())
	return cmd
}

func newKernelInstall() *cobra.Command {
	var o kernel.Options
	var user bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Build the Go kernel and tell Jupyter about it",
		Long: `Build the Go kernel from a rooflab checkout and install it for Jupyter.

The kernel is gophernotes, an interpreter, with rooflab's packages linked in. Building needs the Go tool and
takes a minute or two the first time. The installed kernel needs neither Go nor the checkout.`,
		Example: `  rooflab kernel install
  rooflab kernel install --prefix "$VIRTUAL_ENV"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if user && o.Prefix != "" {
				return usagef("give either --user or --prefix")
			}
			if o.Engine != "gophernotes" {
				return usagef("--engine %s: there is only gophernotes", o.Engine)
			}
			o.Progress = cmd.ErrOrStderr()
			done, err := kernel.Install(cmd.Context(), o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "installed kernel %s in %s\n", done.Spec.Name, done.Spec.Dir)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Engine, "engine", "gophernotes", "engine to build")
	f.BoolVar(&user, "user", false, "install for this user (the default)")
	f.StringVar(&o.Prefix, "prefix", "", "install below `DIR`/share/jupyter, as for a Python environment")
	f.StringVar(&o.Source, "source", "", "root folder of the rooflab checkout (default: around the working directory)")
	f.StringVar(&o.Name, "name", kernel.DefaultName, "name that notebooks refer to")
	return cmd
}

func newKernelDoctor() *cobra.Command {
	var o kernel.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Find out why the Go kernel does not work",
		Long:    "Check the Go tool, the sources, the kernelspec and whether the kernel answers. Exits with 1 when the kernel cannot work.",
		Example: "  rooflab kernel doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results := kernel.Doctor(cmd.Context(), o)
			if err := printChecks(cmd, results, asJSON); err != nil {
				return err
			}
			for _, r := range results {
				if r.Broken() {
					return errors.New("the kernel does not work; the checks above say why")
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Prefix, "prefix", "", "look below `DIR`/share/jupyter only")
	f.StringVar(&o.Source, "source", "", "root folder of the rooflab checkout (default: around the working directory)")
	f.StringVar(&o.Name, "name", kernel.DefaultName, "name of the kernel")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printChecks(cmd *cobra.Command, results []kernel.Result, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(results)
	}
	for _, r := range results {
		mark := "ok     "
		switch {
		case r.Broken():
			mark = "BROKEN "
		case !r.OK:
			mark = "note   "
		}
		if _, err := fmt.Fprintf(out, "%s %-11s %s\n", mark, r.Check, r.Text); err != nil {
			return err
		}
		if !r.OK && r.Hint != "" {
			if _, err := fmt.Fprintf(out, "%20s%s\n", "", r.Hint); err != nil {
				return err
			}
		}
	}
	return nil
}

func newKernelList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the Go kernels that Jupyter can find",
		Example: "  rooflab kernel list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			specs := kernel.List()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(append([]kernel.Spec{}, specs...))
			}
			if len(specs) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no Go kernel is installed; install one with: rooflab kernel install")
				return err
			}
			table := texttab.Table{Head: []string{"name", "shown as", "folder"}}
			for _, s := range specs {
				table.Rows = append(table.Rows, []string{s.Name, s.DisplayName, s.Dir})
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), table.String())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
