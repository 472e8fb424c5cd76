package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

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
	cmd.AddCommand(newKernelInstall(), newKernelDoctor(), newKernelList(), newKernelRun())
	return cmd
}

func newKernelInstall() *cobra.Command {
	var o kernel.Options
	var user bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Build the Go kernel and tell Jupyter about it",
		Long: `Install the Go kernel for Jupyter.

The engine "compiled" compiles each cell with the Go tool and loads it into a living process. It needs the Go tool
and a C linker (gcc or clang), also later. The engine "gophernotes" is an interpreter: slower, and without generics,
but once it is built from a rooflab checkout it needs nothing else. Without --engine it is the compiled one where
there is a C linker.

Cells of both can import rooflab's packages when the command runs in a checkout, or with --source.

papermill knows no Go. With the folder "papermill" of the kernelspec on PYTHONPATH, papermill -p assigns values to the
variables of the cell tagged "parameters". rooflab nb run -p needs no such help.`,
		Example: `  rooflab kernel install
  rooflab kernel install --prefix "$VIRTUAL_ENV"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if user && o.Prefix != "" {
				return usagef("give either --user or --prefix")
			}
			if o.Engine != "" && o.Engine != kernel.Compiled && o.Engine != kernel.Gophernotes {
				return usagef("--engine %s: there are %s and %s", o.Engine, kernel.Compiled, kernel.Gophernotes)
			}
			var err error
			if o.Program, err = os.Executable(); err != nil {
				return fmt.Errorf("find the rooflab binary: %w", err)
			}
			o.Progress = cmd.ErrOrStderr()
			spec, err := kernel.Install(cmd.Context(), o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "installed kernel %s (%s) in %s\n", spec.Name, spec.Engine, spec.Dir)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Engine, "engine", "", "compiled or gophernotes (default: compiled where there is a C linker)")
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
		Long:    "Check the tools, the kernelspec and whether the kernel answers and runs a cell. Exits with 1 when it cannot work.",
		Example: "  rooflab kernel doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Program, err = os.Executable(); err != nil {
				return fmt.Errorf("find the rooflab binary: %w", err)
			}
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
				return json.NewEncoder(cmd.OutOrStdout()).Encode(specs)
			}
			if len(specs) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no Go kernel is installed; install one with: rooflab kernel install")
				return err
			}
			table := texttab.Table{Head: []string{"name", "engine", "shown as", "folder"}}
			for _, s := range specs {
				table.Rows = append(table.Rows, []string{s.Name, cmp.Or(s.Engine, "another"), s.DisplayName, s.Dir})
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), table.String())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
