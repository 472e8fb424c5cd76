package kineto

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/trace"
)

// event holds the fields of one event as text; all point into the scanner's buffer.
type event struct {
	cat                            category
	ph, name, pid, tid, ts, dur    string
	device, stream, correlation    string // of args; a correlation in quotes keeps them
	hasDevice, hasStream, hasCorre bool
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
	catOp
)

// categories in lower case; kineto wrote Kernel, Memcpy, Memset, Runtime until 2022.
var categories = map[string]category{
	"kernel": catKernel, "gpu_memcpy": catMemcpy, "memcpy": catMemcpy, "gpu_memset": catMemset, "memset": catMemset,
	"cuda_runtime": catRuntime, "cuda_driver": catRuntime, "runtime": catRuntime, "hip_runtime": catRuntime,
	"xpu_runtime": catRuntime, "privateuse1_runtime": catRuntime, "user_annotation": catAnnotation,
}

// operators are the categories that are read only when the host's work is asked for.
var operators = map[string]bool{"cpu_op": true, "operator": true}

var (
	launchKernel = regexp.MustCompile(`^(cudaLaunch\w*Kernel\w*|cuLaunch\w*Kernel\w*|hip\w*Launch\w*Kernel\w*)$`)
	launchGraph  = regexp.MustCompile(`^(cuda|cu|hip)GraphLaunch\w*$`)
)

// decoder turns the text of one event into records of a builder.
type decoder struct {
	b      *trace.Builder
	ev     event
	args   string // raw args of ev
	habits habits
	marks  marks
	field  func(key, value gjson.Result) bool // bound once, so that no event allocates
	calls  map[string]trace.LaunchKind        // runtime name -> what it launches
	cats   map[string]category                // spelling -> category
	share  func() float64                     // part of the file that is read, 0 when unknown
	host   bool                               // operators are kept
}

// maxName is where longer names are cut: rules of the classifier look at every byte of a name. Real ones have up to 5,200.
const maxName = 64 << 10

// maxTime is the longest time of one GPU event, a day, in ns: garbage above it would overflow the sums.
const maxTime = 24 * 3600 * 1_000_000_000

func (d *decoder) init(b *trace.Builder, share func() float64) {
	d.b, d.field, d.share = b, d.takeField, share
	d.calls, d.cats = map[string]trace.LaunchKind{}, map[string]category{}
}

// expect guesses how many events of a kind the file has, from n in the part that is read, so that their memory is made once.
// A guess that is too large costs nothing: pages that are not written take no memory.
func (d *decoder) expect(n int) int {
	if share := d.share(); n > 10000 && share > 0 {
		return max(n+n/8, min(int(float64(n)/share*1.25), 512*n))
	}
	return 2*n + 1000
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
		d.args = value.Raw
	}
	return true
}

// takeArgs notes what is needed of the field args.
func (d *decoder) takeArgs() {
	if d.args == "" {
		return
	}
	if v := gjson.Get(d.args, "correlation"); v.Exists() {
		d.ev.correlation, d.ev.hasCorre = v.Raw, true
	}
	if d.ev.cat >= catRuntime {
		return
	}
	if v := gjson.Get(d.args, "device"); v.Exists() {
		d.ev.device, d.ev.hasDevice = text(v), true
	}
	if v := gjson.Get(d.args, "stream"); v.Exists() {
		d.ev.stream, d.ev.hasStream = text(v), true
	}
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
		lower := strings.ToLower(s)
		if c = categories[lower]; d.host && operators[lower] {
			c = catOp
		}
		if len(d.cats) < 1000 && len(s) < 100 {
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
	d.ev, d.args = event{}, ""
	gjson.Parse(view(raw)).ForEach(d.field)
	if d.ev.ph != "X" || d.ev.cat == catOther {
		return
	}
	d.takeArgs()
	d.record(&d.ev)
}

// view makes a string of b without copying it; it is only valid as long as b is.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// record gives one event of interest to the builder.
func (d *decoder) record(ev *event) {
	start, okStart := parseNs(ev.ts)
	dur, okDur := parseNs(ev.dur)
	if len(ev.name) > maxName {
		d.b.Note(diag.Diagnostic{ID: "long_name", Severity: diag.Warning, N: 1, Text: fmt.Sprintf("names of more than %d bytes were cut there", maxName)})
		ev.name = ev.name[:maxName]
	}
	switch ev.cat {
	case catAnnotation, catRuntime, catOp:
		d.cpu(ev, start, dur, okStart)
	default:
		switch {
		case !okStart || !okDur:
			d.bad("event_without_time", "GPU events without a readable ts or dur were left out")
		case dur > maxTime || start > math.MaxInt64/2 || start < -math.MaxInt64/2:
			d.bad("impossible_time", "GPU events that last longer than a day, or lie centuries away, were left out")
		case dur < 0:
			d.bad("negative_duration", "GPU events with a negative duration were left out")
		case start == 0 && dur == 0:
			d.b.Note(diag.Diagnostic{ID: "lost_times", Severity: diag.DataLoss, N: 1, Text: "GPU events with time 0 and duration 0: the profiler lost their records; they are left out",
				Hint: "profile a shorter window"})
		default:
			d.gpu(ev, start, dur)
		}
	}
}

// cpu takes what the CPU did: annotations, runtime calls and, when they are asked for, operators.
func (d *decoder) cpu(ev *event, start, dur int64, timed bool) {
	if !timed || start > math.MaxInt64/2 || start < -math.MaxInt64/2 || dur > maxTime {
		d.b.Note(diag.Diagnostic{ID: "call_without_time", Severity: diag.Warning, N: 1,
			Text: "launches and annotations of the CPU without a readable time were left out; GPU work that they started is in no step"})
		return
	}
	d.b.Call(ev.pid, ev.tid, ev.name, start, max(dur, 0))
	switch ev.cat {
	case catAnnotation:
		d.b.Annotate(ev.pid, ev.tid, ev.name, start, dur)
	case catRuntime:
		d.runtime(ev, start, dur)
	}
}

func (d *decoder) runtime(ev *event, start, dur int64) {
	call := d.call(ev.name)
	switch call {
	case trace.LaunchKernel:
		d.b.Rank.KernelLaunches++
	case trace.LaunchGraph:
		d.b.Rank.GraphLaunches++
	}
	if ev.hasCorre {
		if n, room := d.b.Launches(); n == room {
			d.b.ReserveLaunches(d.expect(n))
		}
		d.b.Launch(ev.pid, ev.tid, parseID(ev.correlation), start, dur, call)
	}
}

func (d *decoder) gpu(ev *event, start, dur int64) {
	if !ev.hasDevice {
		ev.device = ev.pid
	} else if merged := trace.Merged(ev.pid); merged != "" {
		ev.device = merged + " " + ev.device
	}
	if !ev.hasStream {
		ev.stream = ev.tid
	}
	if n := len(d.b.Rank.Kernels); n == cap(d.b.Rank.Kernels) {
		d.b.Reserve(d.expect(n))
	}
	d.b.Add(trace.Kernel{Start: start, Dur: dur, Correlation: parseID(ev.correlation), Name: d.b.Name(ev.name), Stream: d.b.Stream(ev.stream), Step: -1,
		Device: d.b.Device(ev.device), Kind: trace.Kind(ev.cat - catKernel)})
}

// call says what a runtime function does; the answer is kept per name.
func (d *decoder) call(name string) trace.LaunchKind {
	kind, ok := d.calls[name]
	if ok {
		return kind
	}
	switch {
	case launchGraph.MatchString(name):
		kind = trace.LaunchGraph
	case launchKernel.MatchString(name):
		kind = trace.LaunchKernel
	}
	if len(d.calls) < 10000 && len(name) < 1000 {
		d.calls[strings.Clone(name)] = kind
	}
	return kind
}

func (d *decoder) bad(id, what string) {
	d.b.Note(diag.Diagnostic{ID: id, Severity: diag.DataLoss, N: 1, Text: what})
}
