// Package trace holds what a profile of one rank says about its GPU: kernels, copies, engine steps and what is wrong with the file.
// All times are int64 nanoseconds on the file's own clock (add Rank.BaseNs to compare ranks). Readers fill a Builder and get a Rank.
// It reads no files, names no components and draws nothing.
package trace

import "github.com/rooflab/rooflab/internal/diag"

// Kind says what a GPU event is.
type Kind uint8

// The kinds of GPU events.
const (
	KindKernel Kind = iota
	KindMemcpy
	KindMemset
	KindOperator // of the CPU: see Rank.OnCPU
	KindHost     // the CPU, outside of operators
)

// Flags of a Kernel.
const (
	Linked    uint8 = 1 << iota // its launch is in the file
	FromGraph                   // launched by a CUDA or HIP graph
	Continued                   // goes on with an operator that began before
)

// Kernel is one GPU event: a kernel, a copy or a fill. 40 bytes.
type Kernel struct {
	Start, Dur  int64 // ns
	Correlation int64 // id of its launch; 0 when the file has none
	Name        int32 // index into Rank.Names
	Stream      int32 // index into Rank.Streams
	Step        int32 // index into Rank.Steps; -1 when it belongs to no step
	Device      int16 // index into Rank.Devices
	Kind        Kind
	Flags       uint8
}

// End is Start + Dur.
func (k Kernel) End() int64 { return k.Start + k.Dur }

// Continues says whether the event goes on with one that is counted already.
func (k Kernel) Continues() bool { return k.Flags&Continued != 0 }

// Graph says whether a graph launch started the kernel.
func (k Kernel) Graph() bool { return k.Flags&FromGraph != 0 }

// StepKind says what an engine step computed.
type StepKind string

// The kinds of steps.
const (
	Decode  StepKind = "decode"
	Prefill StepKind = "prefill"
	Mixed   StepKind = "mixed"
	Idle    StepKind = "idle" // a step without tokens

	Unmarked StepKind = "unknown" // the mark of the step, if there is one, does not say what it computed
)

// What marked the steps of a Rank.
const (
	ByAnnotation = "annotation" // of the engine, or of a loop that numbers its steps
	ByRepetition = "repetition" // nothing: they were found where the sequence of kernels repeats
)

// Step is one engine step: one annotation on the CPU and the GPU work that its launches started. A step that was found by
// repetition has no name, no CPU times, no launches and an unknown kind.
type Step struct {
	Name             string // the annotation as written
	Kind             StepKind
	ContextTokens    int   // prompt tokens computed; 0 also when the annotation does not say
	GenerationTokens int   // tokens of decoding requests
	CPUStart, CPUDur int64 // ns; the annotation itself
	Start, End       int64 // ns; first start and last end of its GPU work; both 0 when Events is 0
	Events           int   // GPU events
	GraphEvents      int   // of them, those that a graph launched: they have no launch of their own
	Launches         int   // kernels launched one by one
	GraphLaunches    int   // graphs launched
	Partial          bool  // has clearly fewer GPU events than its like: the window cut it
}

// Rank is what one file says about one rank. Kernels are sorted by start; equal starts keep a fixed order.
type Rank struct {
	File      string // base name of the file
	Rank      int
	WorldSize int    // 0 when the file does not say
	Device    string // name of the GPU, e.g. "NVIDIA H200"; empty when the file does not say
	BaseNs    int64  // unix ns of time 0 of this file; 0 when times are absolute or unknown

	Names   []string // kernel names; Kernel.Name points here
	Streams []string // stream ids as written; Kernel.Stream points here
	Devices []string // device ids as written; Kernel.Device points here
	Kernels []Kernel
	Steps   []Step
	StepsBy string // ByAnnotation or ByRepetition; empty without steps

	Host *Host // what the CPU did; nil when the reader was not asked for it

	CPU       bool       // there is no GPU work: Kernels are the work of the CPU instead, see OnCPU
	Operators []Operator // of a Rank with CPU set: the operator of a Kernel is Operators[Correlation-1]; outer before inner

	Events         int // events in the file, of any kind
	KernelLaunches int // launches of one kernel
	GraphLaunches  int // launches of a whole graph
	Health         []diag.Diagnostic
}

// Name gives the kernel's name.
func (r *Rank) Name(k Kernel) string { return r.Names[k.Name] }

// Span gives the first start and the last end of all GPU events; zeros without any.
func (r *Rank) Span() (start, end int64) {
	for i, k := range r.Kernels {
		if i == 0 || k.Start < start {
			start = k.Start
		}
		if i == 0 || k.End() > end {
			end = k.End()
		}
	}
	return start, end
}
