package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/phases"
)

// examined is what doctor found in one folder and did about it.
type examined struct {
	campaign.Left
	Run    bool   `json:"run"`             // a run works in the folder
	Closed bool   `json:"closed"`          // the profile that was open
	Error  string `json:"error,omitempty"` // why it could not be closed
}

func newDoctor() *cobra.Command {
	var at connection
	var look, asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [DIR...]",
		Short: "Find and close what a stopped run left open on a server",
		Long: `Find what stopped runs left behind in campaign folders, and close a profile that is still open on a server.

Only a profile that the campaign's own journal notes is closed, and only when the process that opened it is gone:
any other one belongs to somebody else. A process that outlived its run and closes the profile itself is waited for,
and so is the server while it writes its traces; what is waited for is shown, and Ctrl-C does no harm.
Rounds that were measured in part are named; rooflab run --resume finishes them.
Without DIR it is the campaign around the working directory, else the folder campaign, as for rooflab run.`,
		Example: `  rooflab doctor kimi
  rooflab doctor --look --json kimi glm
  ROOFLAB_API_KEY=... rooflab doctor kimi`,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if err := at.export(); err != nil {
				return err
			}
			if len(dirs) == 0 {
				here := campaignHere()
				if _, err := campaign.ReadManifest(here); err != nil {
					return usagef("no campaign folder here or above, and none in %s; give one: rooflab doctor DIR", here)
				}
				dirs = []string{here}
			}
			all := []examined{}
			var failed error
			for _, dir := range dirs {
				left, err := campaign.Find(dir)
				e := examined{Left: left, Run: phases.Working(dir)}
				if err != nil { // the others may have a profile open
					e.Error, failed = err.Error(), errors.Join(failed, err)
				}
				if !look && left.Profile != nil && !(left.Profile.InUse && e.Run) {
					if e.Closed, err = closeShown(cmd, left); err != nil {
						e.Closed, e.Error, failed = false, err.Error(), errors.Join(failed, err)
					}
				}
				all = append(all, e)
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(all); err != nil {
					return err
				}
				return failed
			}
			for _, e := range all {
				if err := e.print(cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return failed
		},
	}
	at.access(cmd)
	cmd.Flags().BoolVar(&look, "look", false, "only look: send nothing to a server")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// closeShown closes the profile of a folder and shows what is waited for.
func closeShown(cmd *cobra.Command, left campaign.Left) (bool, error) {
	w := cmd.ErrOrStderr()
	if left.Profile.InUse {
		fmt.Fprintf(w, "%s: %s; waiting until it has closed it, Ctrl-C does no harm\n", left.Dir, plain(left.Profile.Doing))
	}
	p := newProgress(w)
	defer p.clear()
	defer p.watch(left.Dir)()
	return campaign.CloseLostProfile(cmd.Context(), left.Dir)
}

func (e examined) print(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "%s: %s\n", e.Dir, plain(fmt.Sprintf(format, args...)))
	}
	if p := e.Profile; p != nil {
		what := fmt.Sprintf("a profile on %s", p.Target)
		if p.Streams > 0 {
			what += fmt.Sprintf(", of C = %d", p.Streams)
		}
		if p.Opened != "" {
			what += ", opened " + p.Opened
		}
		switch {
		case e.Closed && p.InUse:
			line("%s: closed, its process has ended", what)
		case e.Closed:
			line("%s was left open: closed", what)
		case p.InUse:
			line("%s: %s; it closes the profile itself", what, p.Doing)
		case e.Error == "":
			line("%s was left open; rooflab doctor without --look closes it", what)
		default:
			line("%s was left open and cannot be closed", what)
		}
	}
	if e.Profile == nil && e.Error != "" {
		line("%s", e.Error)
	}
	if w := e.Work; w != nil {
		if w.Gone && !e.Run && (e.Profile == nil || !e.Profile.InUse) {
			line("process %d no longer runs here; it was at: %s; rooflab run --resume goes on there", w.PID, w.Doing)
		} else {
			line("process %d is at: %s", w.PID, w.Doing)
		}
	}
	for _, r := range e.Rounds {
		if r.Again {
			line("run %s, C = %d is measured again and lacks %s; the finished round stays until that is there; rooflab run --resume with the same parameters goes on there", r.Run, r.Streams, r.Missing)
			continue
		}
		line("run %s, C = %d lacks %s; rooflab run --resume goes on there", r.Run, r.Streams, r.Missing)
	}
	for _, name := range e.Partial {
		line("%s was being fetched; rooflab run --resume goes on there", name)
	}
	if b.Len() == 0 {
		line("nothing is left open or half done")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
