package analyze_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// us writes ns as Python prints them in microseconds: the shortest decimal, with at least one place.
func us(ns int64) json.Number {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	frac := strings.TrimRight(fmt.Sprintf("%03d", ns%1000), "0")
	if frac == "" {
		frac = "0"
	}
	return json.Number(fmt.Sprintf("%s%d.%s", sign, ns/1000, frac))
}

// normal gives a decimal number at least one place.
func normal(n json.Number) json.Number {
	if !strings.Contains(string(n), ".") {
		n += ".0"
	}
	return n
}

// flattenReader reads a file of the reference reader: each of its figures that we have too.
func flattenReader(t *testing.T, path string, out map[string]string) {
	t.Helper()
	var e map[string]any
	if !decode(t, path, &e) {
		return
	}
	put := func(figure string, v any) {
		switch n := v.(type) {
		case json.Number:
			if strings.HasSuffix(figure, "_us") {
				n = normal(n)
			}
			out[figure] = string(n)
		case string:
			out[figure] = n
		case bool:
			out[figure] = fmt.Sprint(n)
		}
	}
	for _, k := range []string{"events", "kernels", "distinct_kernel_names", "kernel_sum_us", "memcpys", "memsets", "kernel_launches", "graph_launches",
		"kernels_linked", "kernels_from_graph", "kernels_unlinked", "gpu_busy_us", "gpu_idle_us", "comm_us", "exposed_comm_us"} {
		put(k, e[k])
	}
	devices, _ := e["devices"].(map[string]any)
	for id, d := range devices {
		for k, v := range d.(map[string]any) {
			put("devices."+id+"."+k, v)
			streams, _ := v.(map[string]any)
			for s, figures := range streams {
				for k, v := range figures.(map[string]any) {
					put("devices."+id+".streams."+s+"."+k, v)
				}
			}
		}
	}
	top, _ := e["top_kernels"].([]any)
	for i, k := range top {
		for _, f := range []string{"name", "count", "sum_us", "min_us", "max_us", "comm"} {
			put(fmt.Sprintf("top_kernels.%d.%s", i, f), k.(map[string]any)[f])
		}
	}
	for form, s := range e["steps"].(map[string]any) {
		put("steps."+form, s.(map[string]any)["events"])
	}
	put("zero_dur_kernels", e["anomalies"].(map[string]any)["zero_dur_kernels"])
	level, _ := e["top_level"].(map[string]any)
	put("base_ns", level["baseTimeNanoseconds"])
	info, _ := level["distributedInfo"].(map[string]any)
	put("rank", info["rank"])
	put("world_size", info["world_size"])
}

// stepForms are the names of steps as the reference reader groups them.
var stepForms = []struct {
	form string
	re   *regexp.Regexp
}{
	{"vllm_native", regexp.MustCompile(`^execute_context_`)}, {"vllm_detailed", regexp.MustCompile(`^execute_\d+_context_`)},
	{"sglang_step", regexp.MustCompile(`^step\[`)}, {"profiler_step", regexp.MustCompile(`^ProfilerStep ?#`)},
}

// readerFigures computes what the reference reader prints.
func readerFigures(r *trace.Rank, cls *classify.Result, out map[string]string) {
	setInt(out, "events", int64(r.Events))
	setInt(out, "kernel_launches", int64(r.KernelLaunches))
	setInt(out, "graph_launches", int64(r.GraphLaunches))
	setInt(out, "base_ns", r.BaseNs)
	for _, f := range stepForms {
		n := 0
		for _, s := range r.Steps {
			if f.re.MatchString(s.Name) {
				n++
			}
		}
		if n > 0 {
			setInt(out, "steps."+f.form, int64(n))
		}
	}
	count := map[string]int64{}
	byName := make([]sum3, len(r.Names))
	for i, k := range r.Kernels {
		switch k.Kind {
		case trace.KindMemcpy:
			count["memcpys"]++
			continue
		case trace.KindMemset:
			count["memsets"]++
			continue
		}
		count["kernels"]++
		byName[k.Name].add(r.Names[k.Name], k.Dur, classify.Collective(cls.Label(i).Component))
		linked := map[bool]string{true: "kernels_linked", false: "kernels_unlinked"}
		count[linked[k.Flags&trace.Linked != 0]]++
		if k.Graph() {
			count["kernels_from_graph"]++
		}
		if k.Dur == 0 {
			count["zero_dur_kernels"]++
		}
	}
	for _, f := range []string{"memcpys", "memsets", "kernels", "kernels_linked", "kernels_unlinked", "kernels_from_graph", "zero_dur_kernels"} {
		setInt(out, f, count[f])
	}
	topKernels(byName, out)
	var busy, idle, comm, exposed int64
	for d := range r.Devices {
		b, i, c, e := deviceFigures(r, cls, int16(d), out)
		busy, idle, comm, exposed = busy+b, idle+i, comm+c, exposed+e
	}
	for f, ns := range map[string]int64{"gpu_busy_us": busy, "gpu_idle_us": idle, "comm_us": comm, "exposed_comm_us": exposed} {
		out[f] = string(us(ns))
	}
}

// sum3 are the sums of one kernel name.
type sum3 struct {
	name         string
	n            int64
	ns, min, max int64
	comm         bool
}

func (s *sum3) add(name string, ns int64, comm bool) {
	if s.n == 0 {
		s.name, s.min, s.comm = name, ns, comm
	}
	s.n++
	s.ns += ns
	s.min, s.max = min(s.min, ns), max(s.max, ns)
}

func topKernels(all []sum3, out map[string]string) {
	all = slices.DeleteFunc(all, func(s sum3) bool { return s.n == 0 })
	slices.SortFunc(all, func(a, b sum3) int {
		if a.ns != b.ns {
			return int(b.ns - a.ns)
		}
		return strings.Compare(a.name, b.name)
	})
	var total int64
	for i, s := range all {
		total += s.ns
		at := fmt.Sprintf("top_kernels.%d.", i)
		out[at+"name"], out[at+"comm"] = s.name, fmt.Sprint(s.comm)
		setInt(out, at+"count", s.n)
		out[at+"sum_us"], out[at+"min_us"], out[at+"max_us"] = string(us(s.ns)), string(us(s.min)), string(us(s.max))
	}
	out["kernel_sum_us"] = string(us(total))
	setInt(out, "distinct_kernel_names", int64(len(all)))
}

// part is one kind of work on a device.
type part struct {
	ivs []trace.Interval
	n   int64
	sum int64
}

func (p *part) add(k trace.Kernel) {
	p.ivs = append(p.ivs, trace.Interval{Start: k.Start, End: k.End()})
	p.n++
	p.sum += k.Dur
}

// deviceFigures computes the figures of one device.
func deviceFigures(r *trace.Rank, cls *classify.Result, device int16, out map[string]string) (busy, idle, comm, exposed int64) {
	var all, kernels, collectives, copies, compute part
	streams, streamKernels := map[int32]*part{}, map[int32]int64{}
	for i, k := range r.Kernels {
		if k.Device != device {
			continue
		}
		all.add(k)
		if streams[k.Stream] == nil {
			streams[k.Stream] = &part{}
		}
		streams[k.Stream].add(k)
		if k.Kind == trace.KindKernel {
			kernels.add(k)
			streamKernels[k.Stream]++
		}
		switch {
		case k.Kind == trace.KindMemcpy:
			copies.add(k)
		case k.Kind == trace.KindKernel && classify.Collective(cls.Label(i).Component):
			collectives.add(k)
		default:
			compute.add(k)
		}
	}
	u, uComm, uCopy, uCompute := trace.Union(all.ivs), trace.Union(collectives.ivs), trace.Union(copies.ivs), trace.Union(compute.ivs)
	first, last := all.ivs[0].Start, all.ivs[0].End
	for _, iv := range all.ivs {
		first, last = min(first, iv.Start), max(last, iv.End)
	}
	var small, largest, gaps int64
	for _, g := range trace.Subtract([]trace.Interval{{Start: first, End: last}}, u) {
		gaps++
		largest = max(largest, g.End-g.Start)
		if g.End-g.Start < 10_000 {
			small += g.End - g.Start
		}
	}
	busy, comm = trace.Total(u), trace.Total(uComm)
	idle, exposed = last-first-busy, trace.Total(trace.Subtract(uComm, uCompute))
	at := "devices." + r.Devices[device] + "."
	for f, n := range map[string]int64{"gpu_events": all.n, "kernels": kernels.n, "gaps": gaps, "comm_kernels": collectives.n} {
		setInt(out, at+f, n)
	}
	for f, ns := range map[string]int64{"first_us": first, "last_us": last, "span_us": last - first, "busy_us": busy, "idle_us": idle, "max_gap_us": largest,
		"gaps_lt_10us_sum_us": small, "kernel_union_us": trace.Total(trace.Union(kernels.ivs)), "kernel_sum_us": kernels.sum, "compute_us": trace.Total(uCompute),
		"comm_us": comm, "comm_sum_us": collectives.sum, "exposed_comm_us": exposed, "memcpy_us": trace.Total(uCopy),
		"exposed_memcpy_us": trace.Total(trace.Subtract(trace.Subtract(uCopy, uCompute), uComm))} {
		out[at+f] = string(us(ns))
	}
	for id, p := range streams {
		s := at + "streams." + r.Streams[id] + "."
		setInt(out, s+"events", p.n)
		setInt(out, s+"kernels", streamKernels[id])
		out[s+"sum_dur_us"], out[s+"union_us"] = string(us(p.sum)), string(us(trace.Total(trace.Union(p.ivs))))
	}
	return busy, idle, comm, exposed
}
