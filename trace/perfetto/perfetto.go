// Package perfetto writes a classified rank as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open: for each GPU a
// track of steps, a track of layers, and one for each stream, whose slices are named after their component (viewers colour by name).
// Times are microseconds with three decimals, exact to the ns, after the first GPU event of all ranks.
// Format: "Trace Event Format" (Google). It does not read traces, classify or compress.
package perfetto

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// Write writes the ranks, one classification each, into one trace. Clocks of the ranks are aligned when all files name their base
// time; else each rank begins at 0.
func Write(w io.Writer, ranks []*trace.Rank, cls []*classify.Result) error {
	out := &writer{w: bufio.NewWriterSize(w, 1<<16)}
	base, aligned := origin(ranks)
	out.text(`{"displayTimeUnit":"ns",`)
	if aligned {
		out.text(`"baseTimeNanoseconds":` + strconv.FormatInt(base, 10) + ",")
	}
	out.text(`"traceEvents":[`)
	for i, t := range ranks {
		out.zero, _ = t.Span()
		if aligned {
			out.zero = base - t.BaseNs
		}
		out.rank(t, cls[i])
	}
	out.text("\n]}\n")
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("write the Perfetto trace: %w", err)
	}
	return nil
}

// origin is the unix ns of the first GPU event of all ranks; false when a file does not say its base time.
func origin(ranks []*trace.Rank) (ns int64, aligned bool) {
	for i, t := range ranks {
		if t.BaseNs == 0 {
			return 0, false
		}
		start, _ := t.Span()
		if start += t.BaseNs; i == 0 || start < ns {
			ns = start
		}
	}
	return ns, len(ranks) > 0
}

// writer writes events. Errors stay in the bufio.Writer until the end.
type writer struct {
	w     *bufio.Writer
	buf   []byte
	zero  int64 // ns on the clock of the rank that is written as 0
	pid   int   // of the device that is written; from 1
	tids  int   // tracks so far
	begun bool
}

// slice is one box on a track. args is JSON without braces.
type slice struct {
	start, dur      int64
	name, cat, args string
}

// rank writes one process for each device.
func (o *writer) rank(t *trace.Rank, cls *classify.Result) {
	names := make([]string, len(t.Names))
	for i, n := range t.Names {
		names[i] = quote(n)
	}
	streams := make([]map[int32][]int32, len(t.Devices)) // kernels by stream
	for i, k := range t.Kernels {
		if streams[k.Device] == nil {
			streams[k.Device] = map[int32][]int32{}
		}
		streams[k.Device][k.Stream] = append(streams[k.Device][k.Stream], int32(i))
	}
	for d, byStream := range streams {
		o.pid++
		o.meta("process_name", 0, fmt.Sprintf("rank %d, device %s, %s", t.Rank, t.Devices[d], cmp.Or(t.Device, "GPU not named")))
		o.track("steps", stepSlices(t))
		o.track("layers", layerSlices(t, cls, int16(d)))
		ids := make([]int32, 0, len(byStream))
		for id := range byStream {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b int32) int { // numbers by size, other ids after the alphabet
			x, y := t.Streams[a], t.Streams[b]
			return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
		})
		for _, id := range ids {
			o.track("stream "+t.Streams[id], kernelSlices(t, cls, names, byStream[id]))
		}
	}
}

// stepSlices are the spans of the steps with GPU work: the first start of their kernels to the start of the next step.
func stepSlices(t *trace.Rank) []slice {
	var out []slice
	for i, s := range t.Steps {
		if s.Events == 0 {
			continue
		}
		end := s.End
		if at := slices.IndexFunc(t.Steps[i+1:], func(n trace.Step) bool { return n.Events > 0 && n.Start > s.Start }); at >= 0 {
			end = min(end, t.Steps[i+1+at].Start)
		}
		out = append(out, slice{s.Start, end - s.Start, string(s.Kind), "step", fmt.Sprintf(
			`"step":%d,"context_tokens":%d,"generation_tokens":%d,"events":%d,"partial":%t`, i, s.ContextTokens, s.GenerationTokens, s.Events, s.Partial)})
	}
	return out
}

// layerSlices run from the first kernel of a layer to its last one, at most to the next layer.
func layerSlices(t *trace.Rank, cls *classify.Result, device int16) []slice {
	type key struct {
		step  int32
		layer int16
	}
	at := map[key]int{}
	var out []slice
	for i, k := range t.Kernels {
		id := key{k.Step, cls.Places[i].Layer}
		if k.Device != device || id.layer < 0 {
			continue
		}
		n, ok := at[id]
		if !ok {
			n = len(out)
			at[id] = n
			layer := strconv.Itoa(int(id.layer))
			out = append(out, slice{start: k.Start, name: "layer " + layer, cat: "layer", args: `"layer":` + layer + stepArg(k.Step)})
		}
		out[n].dur = max(out[n].dur, k.End()-out[n].start)
	}
	for i := range out[:max(len(out)-1, 0)] {
		out[i].dur = min(out[i].dur, out[i+1].start-out[i].start)
	}
	return out
}

func stepArg(step int32) string {
	if step < 0 {
		return ""
	}
	return `,"step":` + strconv.Itoa(int(step))
}

// kernelSlices are the GPU events of one stream.
func kernelSlices(t *trace.Rank, cls *classify.Result, names []string, kernels []int32) []slice {
	out := make([]slice, len(kernels))
	for n, i := range kernels {
		k, p, l := t.Kernels[i], cls.Places[i], cls.Label(int(i))
		args := `"kernel":` + names[k.Name]
		if l.Part != "" {
			args += `,"part":` + quote(l.Part)
		}
		if p.Layer >= 0 {
			args += `,"layer":` + strconv.Itoa(int(p.Layer))
		}
		out[n] = slice{k.Start, k.Dur, l.Component, l.Component, args + stepArg(k.Step)}
	}
	return out
}

// track writes slices, which are sorted by start. Viewers drop slices that overlap on one track without one holding the other, so
// what begins before the slice before it ends goes to a further track of the same name.
func (o *writer) track(name string, all []slice) {
	var tids []int
	var ends []int64
	for _, s := range all {
		at := slices.IndexFunc(ends, func(end int64) bool { return end <= s.start })
		if at < 0 {
			at = len(tids)
			o.tids++
			tids, ends = append(tids, o.tids), append(ends, 0)
			label := name
			if at > 0 {
				label += fmt.Sprintf(", overlap %d", at)
			}
			o.meta("thread_name", o.tids, label)
			o.event(`"ph":"M","name":"thread_sort_index","pid":%d,"tid":%d,"args":{"sort_index":%d}`, o.pid, o.tids, o.tids)
		}
		ends[at] = s.start + s.dur
		o.complete(tids[at], s)
	}
}

func (o *writer) meta(kind string, tid int, name string) {
	o.event(`"ph":"M","name":"%s","pid":%d,"tid":%d,"args":{"name":%s}`, kind, o.pid, tid, quote(name))
}

func (o *writer) event(format string, args ...any) {
	o.next()
	fmt.Fprintf(o.w, format, args...)
	o.text("}")
}

// next opens an event.
func (o *writer) next() {
	if o.begun {
		o.text(",")
	}
	o.begun = true
	o.text("\n{")
}

// complete writes one "X" event without fmt: there is one for each GPU event.
func (o *writer) complete(tid int, s slice) {
	o.next()
	b := append(o.buf[:0], `"ph":"X","name":"`...)
	b = append(append(b, s.name...), `","cat":"`...)
	b = append(append(b, s.cat...), `","pid":`...)
	b = append(strconv.AppendInt(b, int64(o.pid), 10), `,"tid":`...)
	b = append(strconv.AppendInt(b, int64(tid), 10), `,"ts":`...)
	b = append(appendMicros(b, s.start-o.zero), `,"dur":`...)
	b = append(appendMicros(b, s.dur), `,"args":{`...)
	b = append(append(b, s.args...), "}}"...)
	o.buf = b
	_, _ = o.w.Write(b) // kept by the bufio.Writer
}

// appendMicros writes ns as microseconds with three decimals.
func appendMicros(b []byte, ns int64) []byte {
	if ns < 0 {
		b = append(b, '-')
		ns = -ns
	}
	b = append(strconv.AppendInt(b, ns/1000, 10), '.')
	return append(b, byte('0'+ns/100%10), byte('0'+ns/10%10), byte('0'+ns%10))
}

func (o *writer) text(s string) { _, _ = o.w.WriteString(s) }
