package rules

import (
	"fmt"
	"sort"

	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace/breakdown"
)

// GrowthTitle heads the figure of steps over loads: how much the step grows between the last two loads, and what most of it is.
func GrowthTitle(ws []Window) string {
	if len(ws) < 2 {
		return "Where the milliseconds of one step go"
	}
	a, b := ws[len(ws)-2], ws[len(ws)-1]
	grow := b.StepNs() - a.StepNs()
	if grow <= 0 {
		return fmt.Sprintf("From %d to %d streams the step does not grow", a.Streams, b.Streams)
	}
	rows := Bottlenecks([]Window{a, b})
	top, most := "", int64(0)
	for _, r := range rows.Rows {
		if d := b.PerStepNs(r.Components...) - a.PerStepNs(r.Components...); d > most {
			top, most = subject(r), d
		}
	}
	s := fmt.Sprintf("From %d to %d streams the step grows by %s ms", a.Streams, b.Streams, units.Ms(grow, 1))
	if most > 0 {
		s += fmt.Sprintf(", and %s of that is %s", percent(units.Percent(most, grow, 0)), top)
	}
	return s
}

// SharesTitle heads the figure of two components over loads: which is larger at the last load, and whether that changed just before.
func SharesTitle(ws []Window, a, b string) string {
	n := len(ws)
	if n == 0 {
		return "Nothing was measured"
	}
	last := ws[n-1]
	if n > 1 && (ws[n-2].Sum(a) > ws[n-2].Sum(b)) != (last.Sum(a) > last.Sum(b)) {
		return fmt.Sprintf("Which of the two is larger changes between %d and %d streams", ws[n-2].Streams, last.Streams)
	}
	first, second := a, b
	if last.Sum(b) > last.Sum(a) {
		first, second = b, a
	}
	return fmt.Sprintf("At %s more time goes to %s than to %s", streams(last.Streams), subjectOf(first), subjectOf(second))
}

// SettingTitle heads the figure of a call over message size: what the served setting costs against the alternative.
func SettingTitle(served, alternative string, ws []Window, alts []Alternative) string {
	var same, more []string
	for i, w := range ws {
		a := at(alts, i)
		switch {
		case a.ServedNs == 0 || a.OtherNs == 0:
		case a.ServedNs*100 <= a.OtherNs*102:
			same = append(same, fmt.Sprint(w.Streams))
		default:
			more = []string{units.Ratio(a.ServedNs, a.OtherNs, 1), w.Label()}
		}
	}
	switch {
	case len(more) > 0 && len(same) > 0:
		return fmt.Sprintf("%s costs nothing extra at C = %s and %s times %s at %s", served, list(same), more[0], alternative, more[1])
	case len(more) > 0:
		return fmt.Sprintf("%s costs %s times %s at %s", served, more[0], alternative, more[1])
	case len(same) > 0:
		return fmt.Sprintf("%s costs nothing extra at C = %s", served, list(same))
	}
	return served + " beside " + alternative
}

// RoofTitle heads a roofline: on which side of the ridge the points lie and how near the best one comes.
func RoofTitle(what string, pts []RoofPoint, ridge float64) string {
	measured, right, best := 0, 0, 0.0
	for _, p := range pts {
		if p.Intensity > 0 {
			measured++
		}
		if p.Intensity > ridge {
			right++
		}
		best = max(best, p.RoofPct)
	}
	side := "limited by memory at every size"
	switch {
	case measured == 0:
		return what + " under the roof"
	case right == measured:
		side = "limited by compute at every size"
	case right > 0:
		side = fmt.Sprintf("limited by compute at %d of %d sizes", right, measured)
	}
	return fmt.Sprintf("%s are %s, and reach %s of their roof at best", what, side, percent(units.Float(best, 0)))
}

// LayersTitle heads the figure of all layers: how far they differ, and which ones stand out from the median by a quarter or more.
func LayersTitle(r breakdown.Rank) string {
	total := map[int]int64{}
	var layers []int
	for _, c := range r.StepLayers() {
		if c.Layer < 0 {
			continue
		}
		if _, ok := total[c.Layer]; !ok {
			layers = append(layers, c.Layer)
		}
		total[c.Layer] += c.Ns
	}
	if len(layers) == 0 {
		return "No layers were found"
	}
	sorted := append([]int{}, layers...)
	sort.Slice(sorted, func(i, k int) bool { return total[sorted[i]] < total[sorted[k]] })
	median := total[sorted[len(sorted)/2]]
	var odd []int
	for _, l := range layers {
		if d := total[l] - median; 4*max(d, -d) >= median {
			odd = append(odd, l)
		}
	}
	per := func(ns int64) string { return units.Fixed(ns, int64(max(r.StepCount(), 1))*1000, 0) }
	switch {
	case len(odd) == 0:
		return fmt.Sprintf("All %d layers cost about the same, %s µs", len(layers), per(median))
	case len(odd) == 1:
		return fmt.Sprintf("All layers cost about %s µs but layer %d, which takes %s µs", per(median), odd[0], per(total[odd[0]]))
	case len(odd) <= 4:
		return fmt.Sprintf("All layers cost about %s µs but layers %s", per(median), list(words(odd)))
	}
	return fmt.Sprintf("Layers differ: %d of %d are a quarter or more off the median of %s µs", len(odd), len(layers), per(median))
}

func words(numbers []int) []string {
	var out []string
	for _, n := range numbers {
		out = append(out, fmt.Sprint(n))
	}
	return out
}

// LayerTitle heads the timeline of one layer: the collectives and the expert GEMMs against all of it.
func LayerTitle(slices []breakdown.Slice) string {
	var big, end int64
	n := map[string]int{}
	for _, s := range slices {
		end = max(end, s.StartNs+s.DurNs)
		if s.Component == "allreduce" || s.Component == "moe.experts" {
			big += s.DurNs
			n[s.Component]++
		}
	}
	if end == 0 {
		return "No layer was found"
	}
	var parts []string
	for _, c := range []struct{ component, one string }{{"allreduce", "all-reduce"}, {"moe.experts", "expert GEMM"}} {
		switch k := n[c.component]; {
		case k == 1:
			parts = append(parts, "1 "+c.one)
		case k > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", k, c.one))
		}
	}
	take := "take"
	switch n["allreduce"] + n["moe.experts"] {
	case 0:
		return fmt.Sprintf("One layer takes %s µs", units.Us(end, 0))
	case 1:
		take = "takes"
	}
	return fmt.Sprintf("One layer: %s %s %s of its %s µs", list(parts), take, percent(units.Percent(big, end, 0)), units.Us(end, 0))
}

// GraphsTitle heads the figure of one load with and without CUDA graphs: how much longer the step is, and how much of it is idle.
// The first window is the one with graphs.
func GraphsTitle(ws []Window) string {
	if len(ws) < 2 {
		return "One step with CUDA graphs; a run without was not measured"
	}
	g, e := ws[0], ws[1]
	return fmt.Sprintf("Without CUDA graphs the step is %s times as long, and the GPU idles %s of it",
		units.Ratio(e.StepNs(), g.StepNs(), 1), percent(units.Percent(e.IdleNs, e.SpanNs, 0)))
}
