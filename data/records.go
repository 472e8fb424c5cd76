package data

// MIME types of the records that a cell shows and sitegen reads.
const (
	MIMEVerdict     = "application/vnd.rooflab.verdict+json"
	MIMEBottlenecks = "application/vnd.rooflab.bottlenecks+json"
	MIMETable       = "application/vnd.rooflab.table+json"
	MIMEFindings    = "application/vnd.rooflab.findings+json"
	MIMETiers       = "application/vnd.rooflab.tiers+json"
	MIMEFacts       = "application/vnd.rooflab.facts+json"
	MIMEChart       = "application/vnd.rooflab.chart+json" // written by package charts
)

// Ref points at the cell that made a number: notebook "10-macro", cell id "breakdown".
type Ref struct {
	Notebook string `json:"notebook,omitempty"`
	Cell     string `json:"cell,omitempty"`
}

// Verdict is the answer of a campaign: the heading of its start page.
type Verdict struct {
	Campaign string `json:"campaign"` // one line: campaign, model, software, hardware, date
	Heading  string `json:"heading"`  // the verdict with the numbers that carry it, at most 30 words
	Lede     string `json:"lede"`     // the mechanism in plain words, at most four lines
	Facts    []Fact `json:"facts"`    // how sure, what to do next, what it could bring
	Source   Ref    `json:"source,omitzero"`
}

// Fact is a head and a few words.
type Fact struct {
	Head string `json:"head"`
	Text string `json:"text"`
	Ref  Ref    `json:"ref,omitzero"`
}

// Facts is a list of facts, such as method and provenance.
type Facts struct {
	Heading string `json:"heading"`
	Note    string `json:"note,omitempty"`
	Items   []Fact `json:"items"`
}

// Bottlenecks is the table component x load. All times are totals over Steps steps, in ns.
type Bottlenecks struct {
	Heading string          `json:"heading"`
	Note    string          `json:"note,omitempty"`
	CPU     bool            `json:"cpu,omitempty"` // the traces have no GPU activity: times are of CPU operators and host work
	Loads   []Load          `json:"loads"`
	Rows    []BottleneckRow `json:"rows"`
}

// Load is one measured load of the server, such as 64 streams decoding.
// SummedNs - OverlapNs + IdleNs = SpanNs.
type Load struct {
	Label        string  `json:"label"` // "C = 64"
	Streams      int     `json:"streams"`
	Steps        int     `json:"steps"`
	SummedNs     int64   `json:"summed_ns"`
	OverlapNs    int64   `json:"overlap_ns"`
	IdleNs       int64   `json:"idle_ns"`
	SpanNs       int64   `json:"span_ns"`
	UnprofiledNs int64   `json:"unprofiled_ns,omitempty"` // one step without profiler (steady median ITL); 0 = not measured
	MinStepNs    int64   `json:"min_step_ns,omitempty"`
	MaxStepNs    int64   `json:"max_step_ns,omitempty"`
	OutputTokS   float64 `json:"output_tok_s,omitempty"` // 0 = not measured
	Source       Ref     `json:"source,omitzero"`
}

// BottleneckRow is one component, or several that are shown together.
type BottleneckRow struct {
	Label      string   `json:"label"`
	Components []string `json:"components"` // fixed component names
	Ns         []int64  `json:"ns"`         // one total a load
	Source     Ref      `json:"source,omitzero"`
}

// Verdicts that a finding may have.
const (
	Confirmed = "confirmed"
	Rejected  = "rejected"
	Open      = "open"
)

// Findings is a list of beliefs with what the numbers say.
type Findings struct {
	Heading string    `json:"heading"`
	Note    string    `json:"note,omitempty"`
	Items   []Finding `json:"items"`
}

// Finding is one belief, judged.
type Finding struct {
	ID      string  `json:"id"`
	Verdict string  `json:"verdict"`         // Confirmed, Rejected or Open
	Where   string  `json:"where,omitempty"` // "at C = 256" when it holds only there
	Claim   string  `json:"claim"`
	Text    string  `json:"text"`
	Values  []Value `json:"values,omitempty"`
	Ref     Ref     `json:"ref,omitzero"` // the evidence
}

// Value is a labelled, already formatted number.
type Value struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Tiers is the decision table of optimisations, cheapest first.
type Tiers struct {
	Heading string   `json:"heading"`
	Note    string   `json:"note,omitempty"`
	Loads   []string `json:"loads"` // "C = 1", ...
	Items   []Tier   `json:"items"`
}

// Tier is one change and how much faster a step could get.
type Tier struct {
	Kind   string `json:"kind"`   // "Tier 0, configuration"
	Change string `json:"change"` // what to do
	Detail string `json:"detail"` // effort, what would have to be true, how to test it
	Gains  []Gain `json:"gains"`  // one a load
	Total  bool   `json:"total,omitempty"`
	Ref    Ref    `json:"ref,omitzero"`
}

// Gain bounds a speed-up at one load; the factor is StepNs / AfterNs, the bound StepNs / FloorNs.
type Gain struct {
	StepNs  int64 `json:"step_ns"`            // the step as measured
	AfterNs int64 `json:"after_ns,omitempty"` // the step if the measured alternative holds; 0 = no alternative was measured
	FloorNs int64 `json:"floor_ns,omitempty"` // the step if the component cost nothing (Amdahl); 0 = no bound is claimed
}

// Table is a table of already formatted cells.
type Table struct {
	ID      string   `json:"id,omitempty"`
	Title   string   `json:"title,omitempty"`
	Note    string   `json:"note,omitempty"`
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// Column heads a column; a unit is given once, here.
type Column struct {
	Head    string `json:"head"`
	Unit    string `json:"unit,omitempty"`
	Numeric bool   `json:"numeric,omitempty"`
}

// Row is one line of a table.
type Row struct {
	Cells     []string `json:"cells"`
	Component string   `json:"component,omitempty"` // gives the row its colour
	Bold      bool     `json:"bold,omitempty"`      // sums
	Rule      bool     `json:"rule,omitempty"`      // a rule above the row
	Note      string   `json:"note,omitempty"`      // small print under the first cell
	Ref       Ref      `json:"ref,omitzero"`
}
