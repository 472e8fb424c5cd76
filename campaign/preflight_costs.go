package campaign

import (
	"fmt"
	"time"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Cost is what one load of phase 1 takes.
type Cost struct {
	C          int
	Requests   int64
	Tokens     int64 // in and out
	Steps      int   // profiled
	Ns         int64 // how long it takes, as far as it was measured before; 0 if it was not
	TraceBytes int64 // of all ranks, an estimate; 0 without a model
}

// Bytes of a compressed trace for a layer, a rank and a step, and how many times larger it is unpacked. Measured on traces of
// vLLM 0.24.0 (61 layers, stacks off): replays of CUDA graphs 750 to 1100 bytes and 26 to 32 times, eager steps and prefill about
// 12 kB and 11 to 13 times. Stacks made traces of 0.32.0 four times as large.
const (
	graphBytes, graphRatio = 1100, 32
	eagerBytes, eagerRatio = 12500, 13
	stackFactor            = 4
	startSteps             = 8 // that run while the profiler starts and stops
)

// estimate is the room that traces need.
type estimate struct {
	perRound int64 // one load, all ranks
	all      int64 // all loads
	unpacked int64 // one load while it is written
}

// traces estimates from the model's layers and how the server runs; zero when the model is not known.
func (p *Preflight) traces() estimate {
	layers := int64(defaultLayers)
	if p.Model != nil {
		layers = p.Model.Layers
	}
	each, ratio := int64(graphBytes), int64(graphRatio)
	if p.Process.Engine != "" && p.Process.CUDAGraphs() == "off" {
		each, ratio = eagerBytes, eagerRatio
	}
	if prof := p.Process.Profiler(); prof.WithStack == "true" || prof.Kind == "torch" && prof.WithStack == "" && prof.Via == "flag" {
		each *= stackFactor
	}
	e := estimate{perRound: each * layers * p.ranks() * int64(p.options.WindowSteps+startSteps)}
	e.all, e.unpacked = e.perRound*int64(len(p.options.C)), e.perRound*ratio
	return e
}

const defaultLayers = 61 // of the largest models; an estimate is better too large

// costs counts what phase 1 sends, and takes times from rounds that were measured before with the same lengths.
func (s *Session) costs(p Preflight) []Cost {
	run, _ := s.readRunIfAny()
	est := p.traces()
	var costs []Cost
	for _, c := range p.options.C {
		passes := int64(3) // before, with, and after the profiler
		cost := Cost{C: c, Requests: passes*int64(c) + int64(c), Steps: p.options.WindowSteps, TraceBytes: est.perRound}
		cost.Tokens = int64(c) * (passes*int64(p.options.InputTokens+p.options.OutputTokens) + int64(p.options.InputTokens+warmTokens))
		if p.Server.Replay {
			cost.Requests, cost.Tokens, cost.TraceBytes = 2*int64(c), 2*int64(c)*int64(p.options.InputTokens+p.options.OutputTokens), 0
		}
		for _, r := range run.Rounds {
			if r.Streams == c && r.Unprofiled != nil && r.Unprofiled.SteadyITLNs > 0 {
				cost.Ns = passes*(r.Unprofiled.TTFTp50Ns+int64(p.options.OutputTokens)*r.Unprofiled.SteadyITLNs) + r.StartNs + r.StopNs
			}
		}
		costs = append(costs, cost)
	}
	return costs
}

// readRunIfAny returns the run's record; a session without a folder has none.
func (s *Session) readRunIfAny() (data.Run, error) {
	if s.dir == "" {
		return data.Run{}, nil
	}
	return s.readRun()
}

// CostTable says what each phase would send and disturb, before anything is sent.
func (p Preflight) CostTable() data.Table {
	t := data.Table{ID: "costs", Title: "What each phase costs the server", Columns: []data.Column{
		{Head: "Phase"}, {Head: "Sends"}, {Head: "Takes"}, {Head: "Traces"}, {Head: "Disturbs"}, {Head: "Restart"}}}
	row := func(cells ...string) { t.Rows = append(t.Rows, data.Row{Cells: cells}) }
	row("0 preflight", "a few GET requests", "seconds", "none", "nothing", "no")
	disturbs := "others run beside the load, and wait while the profiler starts and stops"
	for _, c := range p.Costs {
		takes, traces := "not measured yet", "as recorded"
		switch {
		case p.Server.Replay:
			takes = "seconds, from the recording"
		case c.Ns > 0:
			takes = "about " + time.Duration(c.Ns).Round(time.Second).String() + ", by an earlier round"
		}
		if c.TraceBytes > 0 {
			traces = "about " + bytesText(c.TraceBytes)
		}
		row(fmt.Sprintf("1 macro, C = %d", c.C), fmt.Sprintf("%s requests, %s tokens; %d steps profiled", units.Count(c.Requests), units.Count(c.Tokens), c.Steps), takes, traces, disturbs, "no")
		disturbs = "the same"
	}
	row("2 micro", "nothing; benchmarks of single kernels", "not measured yet", "none", "memory and bandwidth of the GPU that they run on, if it is the server's", "no")
	row("3 nsys", "the load at 1 and 64 streams", "two starts of the server", "not measured yet", "everybody: no server while the model loads", "twice, if its owner agrees")
	row("4 findings", "nothing", "seconds", "none", "nothing", "no")
	layers := fmt.Sprintf("%d layers (the model is not known; large ones have as many)", defaultLayers)
	if p.Model != nil {
		layers = fmt.Sprintf("the model's %d layers", p.Model.Layers)
	}
	t.Note = "Tokens: of prompts and answers. Traces: of all ranks, compressed; estimated from " + layers + ", the ranks and the profiler's settings. Twice or half as much is normal."
	if p.Server.Replay {
		t.Note = "A replay repeats what was recorded: two passes a load. A live server is warmed up and measured once more after the profile."
	}
	return t
}
