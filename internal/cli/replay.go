package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/campaign/replay"
)

func newReplay() *cobra.Command {
	var o replay.Options
	cmd := &cobra.Command{
		Use:   "replay DIR",
		Short: "Serve an archived campaign as the recorded server did",
		Long: `Serve vLLM's HTTP API from an archived campaign, until interrupted.

Completions stream with the recorded gaps between tokens, /metrics goes on from the recorded scrape, and
/stop_profile leaves the recorded traces in the trace folder. Each streamed chunk carries its arrival time on a
virtual clock in an SSE comment; every answer has the header Rooflab-Replay, and GET /rooflab/replay says what
was recorded. A load that was not recorded is answered with the nearest one, named in the header Rooflab-Nearest.`,
		Example: `  rooflab replay data/campaigns/h200x2-kimi-k2.5-int4 --addr 127.0.0.1:8000 --trace-dir /tmp/prof
  rooflab run --campaign my-campaign --target http://127.0.0.1:8000 --trace-dir /tmp/prof`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir = args[0]
			if o.TraceDir == "" && !o.NoProfiler {
				return usagef("--trace-dir is missing: where /stop_profile leaves the traces (or give --no-profiler)")
			}
			if o.Speed != 0 && o.Speed != 1 {
				return usagef("--speed %d: 0 is as fast as possible, 1 as recorded", o.Speed)
			}
			if o.SecondStart != "" && o.SecondStart != "ignore" && o.SecondStart != "409" {
				return usagef("--second-start %s: give ignore or 409", o.SecondStart)
			}
			s, err := replay.Start(cmd.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "replaying %s/%s at %s\n", s.About.Campaign, s.About.Run, s.URL)
			<-cmd.Context().Done()
			return s.Close()
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Addr, "addr", "127.0.0.1:0", "address to listen on; port 0 is picked by the system")
	f.StringVar(&o.TraceDir, "trace-dir", "", "folder for the traces of /stop_profile")
	f.StringVar(&o.Run, "run", "", "run to replay (default: the campaign's main run)")
	f.IntVar(&o.Speed, "speed", 0, "0: as fast as possible, 1: as slowly as recorded")
	f.StringVar(&o.SecondStart, "second-start", "", "answer to a second /start_profile: ignore (200) or 409 (default: as the recorded version)")
	f.BoolVar(&o.NoProfiler, "no-profiler", false, "answer as a server without a profiler")
	return cmd
}
