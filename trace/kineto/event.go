package kineto

import (
	"regexp"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/trace"
)

// event holds the fields of one event as text; all point into the scanner's buffer.
type event struct {
	cat                               category
	ph, name, pid, tid, ts, dur, args string
}

// category is what matters about the field cat.
type category uint8

const (
	catOther category = iota
	catKernel
	catMemcpy
	catMemset
	catRuntime
	catAnnotation
)

// categories in lower case; kineto wrote Kernel, Memcpy, Memset, Runtime until 2022.
var categories = map[string]category{
	"kernel": catKernel, "gpu_memcpy": catMemcpy, "memcpy": catMemcpy, "gpu_memset": catMemset, "memset": catMemset,
	"cuda_runtime": catRuntime, "cuda_driver": catRuntime, "runtime": catRuntime, "hip_runtime": catRuntime,
	"xpu_runtime": catRuntime, "privateuse1_runtime": catRuntime, "user_annotation": catAnnotation,
}

// Kinds of runtime calls.
const (
	callOther uint8 = iota
	callKernel
	callGraph
)

var (
	launchKernel = regexp.MustCompile(`^(cudaLaunch\w*Kernel\w*|cuLaunch\w*Kernel\w*|hip\w*Launch\w*Kernel\w*)$`)
	launchGraph  = regexp.MustCompile(`^(cuda|cu|hip)GraphLaunch\w*$`)
)

// decoder turns the text of one event into records of a builder.
type decoder struct {
	b     *trace.Builder
	ev    event
	field func(key, value gjson.Result) bool // bound once, so that no event allocates
	calls map[string]uint8                   // runtime name -> kind of call
	cats  map[string]category                // spelling -> category
}

func (d *decoder) init(b *trace.Builder) {
	d.b, d.field = b, d.takeField
	d.calls, d.cats = map[string]uint8{}, map[string]category{}
}

// takeField notes one field. It stops at the first one that shows that the event is of no interest.
func (d *decoder) takeField(key, value gjson.Result) bool {
	switch key.Str {
	case "ph":
		d.ev.ph = value.Str
		return value.Str == "X"
	case "cat":
		d.ev.cat = d.category(value.Str)
		return d.ev.cat != catOther
	case "name":
		d.ev.name = value.String()
	case "pid":
		d.ev.pid = text(value)
	case "tid":
		d.ev.tid = text(value)
	case "ts":
		d.ev.ts = value.Raw
	case "dur":
		d.ev.dur = value.Raw
	case "args":
		d.ev.args = value.Raw
	}
	return true
}

// text gives a string without quotes, a number by its digits.
func text(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.Str
	}
	return v.Raw
}

func (d *decoder) category(s string) category {
	c, ok := d.cats[s]
	if !ok {
		c = categories[strings.ToLower(s)]
		if len(d.cats) < 1000 {
			d.cats[strings.Clone(s)] = c
		}
	}
	return c
}

// event decodes raw, which is only valid during the call.
func (d *decoder) event(raw []byte) {
	if raw[0] != '{' {
		d.bad("event_not_object", "events that are no JSON objects were left out")
		return
	}
	d.ev = event{}
	gjson.Parse(unsafe.String(unsafe.SliceData(raw), len(raw))).ForEach(d.field)
	if d.ev.ph != "X" || d.ev.cat == catOther {
		return
	}
	start, okStart := parseNs(d.ev.ts)
	dur, okDur := parseNs(d.ev.dur)
	if d.ev.cat != catRuntime && d.ev.cat != catAnnotation {
		if !okStart || !okDur {
			d.bad("event_without_time", "GPU events without a readable ts or dur were left out")
			return
		}
		if dur < 0 {
			d.bad("negative_duration", "GPU events with a negative duration were left out")
			return
		}
		d.gpuEvent(start, dur)
		return
	}
	if !okStart {
		return
	}
	if d.ev.cat == catAnnotation {
		d.b.Annotate(d.ev.pid, d.ev.tid, d.ev.name, start, dur)
		return
	}
	call := d.call(d.ev.name)
	switch call {
	case callKernel:
		d.b.Rank.KernelLaunches++
	case callGraph:
		d.b.Rank.GraphLaunches++
	}
	if id := gjson.Get(d.ev.args, "correlation"); id.Exists() {
		d.b.Launch(d.ev.pid, parseID(id.Raw), start, call == callGraph)
	}
}

func (d *decoder) gpuEvent(start, dur int64) {
	if start == 0 && dur == 0 {
		d.b.Note(diag.Diagnostic{ID: "lost_times", Severity: diag.DataLoss, N: 1, Text: "GPU events with time 0 and duration 0: the profiler lost their records; they are left out",
			Hint: "profile a shorter window"})
		return
	}
	device, stream := gjson.Get(d.ev.args, "device"), gjson.Get(d.ev.args, "stream")
	k := trace.Kernel{Start: start, Dur: dur, Name: d.b.Name(d.ev.name), Step: -1, Kind: trace.Kind(d.ev.cat - catKernel)}
	k.Device = d.b.Device(orElse(device, d.ev.pid))
	k.Stream = d.b.Stream(orElse(stream, d.ev.tid))
	if id := gjson.Get(d.ev.args, "correlation"); id.Exists() {
		k.Correlation = parseID(id.Raw)
	}
	d.b.Add(k)
}

func orElse(v gjson.Result, other string) string {
	if v.Exists() {
		return text(v)
	}
	return other
}

// call says what a runtime function does; the answer is kept per name.
func (d *decoder) call(name string) uint8 {
	kind, ok := d.calls[name]
	if ok {
		return kind
	}
	switch {
	case launchGraph.MatchString(name):
		kind = callGraph
	case launchKernel.MatchString(name):
		kind = callKernel
	}
	if len(d.calls) < 10000 {
		d.calls[strings.Clone(name)] = kind
	}
	return kind
}

func (d *decoder) bad(id, what string) {
	d.b.Note(diag.Diagnostic{ID: id, Severity: diag.DataLoss, N: 1, Text: what})
}
