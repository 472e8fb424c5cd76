package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// gemms are the components that multiply matrices.
var gemms = []string{"moe.experts", "attention.proj", "moe.shared_expert", "moe.router", "mlp.dense", "lm_head"}

// where says at which loads something holds: "" for all or none, else "at C = 1 and 64".
func where(ws []Window, holds func(i int, w Window) bool) (n int, text string) {
	var at []string
	for i, w := range ws {
		if holds(i, w) {
			n++
			at = append(at, fmt.Sprint(w.Streams))
		}
	}
	if n == 0 || n == len(ws) {
		return n, ""
	}
	return n, "at C = " + list(at)
}

// StillTheGEMMs judges the belief that matrix products are what a step is made of: at each load they must take more than
// the largest other row of the bottleneck table.
func StillTheGEMMs(ws []Window, ref data.Ref) data.Finding {
	f := data.Finding{ID: "gemms", Claim: "It is still the GEMMs.", Ref: ref, Verdict: data.Confirmed}
	n, when := where(ws, func(_ int, w Window) bool { return w.Sum(gemms...) < w.Sum(w.largestOther().Components...) })
	if n > 0 {
		f.Verdict, f.Where = data.Rejected, when
	}
	f.Values = values(ws, func(_ int, w Window) string { return percent(w.Share(gemms...)) })
	if len(ws) == 0 {
		f.Verdict, f.Text = data.Open, "Nothing was measured."
		return f
	}
	first, last := ws[0], ws[len(ws)-1]
	was, is := first.largestOther(), last.largestOther()
	if len(ws) == 1 {
		f.Text = fmt.Sprintf("All GEMMs together, experts included: %s of the summed %s. The largest other part is %s, %s.",
			percent(first.Share(gemms...)), base(ws), subject(was), percent(first.Share(was.Components...)))
		return f
	}
	f.Text = fmt.Sprintf("All GEMMs together, experts included, go from %s of the summed %s at %s to %s at %s. The largest other part is ",
		percent(first.Share(gemms...)), base(ws), first.Label(), percent(last.Share(gemms...)), last.Label())
	if subject(was) == subject(is) {
		f.Text += fmt.Sprintf("%s, from %s to %s.", subject(is), percent(first.Share(is.Components...)), percent(last.Share(is.Components...)))
	} else {
		f.Text += fmt.Sprintf("%s (%s) at first and %s (%s) at last.", subject(was), percent(first.Share(was.Components...)), subject(is), percent(last.Share(is.Components...)))
	}
	return f
}

// largestOther is the row of the bottleneck table with the most time that multiplies no matrices.
func (w Window) largestOther() data.BottleneckRow {
	top, most := data.BottleneckRow{Label: "other work", Components: []string{"unknown"}}, int64(0)
	for _, r := range withOthers([]Window{w}) {
		if ns := w.Sum(r.Components...); !slices.Contains(gemms, r.Components[0]) && ns > most {
			top, most = r, ns
		}
	}
	return top
}

// LikeBaseline judges the belief that a component has the share which an earlier campaign found. A single earlier figure
// counts as met within a fifth of itself. Casts are judged together with copies and fills.
func LikeBaseline(b data.Baseline, share data.BaselineShare, ws []Window, ref data.Ref) data.Finding {
	low, high := share.LowPct, share.HighPct
	said := units.Float(low, 0) + units.HardSpace + "%"
	if low == high {
		low, high = low*0.8, high*1.2
	} else {
		said = units.Float(low, 0) + "–" + units.Float(high, 0) + units.HardSpace + "%"
	}
	parts := []string{share.Component}
	if share.Component == "cast_copy" {
		parts = append(parts, "memory")
	}
	f := data.Finding{ID: "baseline-" + strings.ReplaceAll(share.Component, ".", "-"), Ref: ref,
		Claim: fmt.Sprintf("%s: %s, as in %s.", share.Label, said, b.Model)}
	n, when := where(ws, func(_ int, w Window) bool { return w.SharePct(parts...) >= low && w.SharePct(parts...) <= high })
	switch {
	case len(ws) == 0:
		f.Verdict = data.Open
	case n == 0:
		f.Verdict = data.Rejected
	default:
		f.Verdict, f.Where = data.Confirmed, when
	}
	f.Values = values(ws, func(_ int, w Window) string { return percent(w.Share(parts...)) })
	f.Text = against(ws, parts, low, high)
	if share.Kernel != "" && f.Verdict == data.Rejected && ws[0].SharePct(parts...) < low {
		var ns, of int64
		for _, w := range ws {
			if k := w.KernelNs(share.Kernel); of == 0 || k*of > ns*w.SummedNs {
				ns, of = k, w.SummedNs
			}
		}
		f.Text += fmt.Sprintf(" The kernel that took it there, `%s`, takes %s at most.", share.Kernel, percent(units.Percent(ns, of, 1)))
	}
	return f
}

func against(ws []Window, parts []string, low, high float64) string {
	below, above := 0, 0
	for _, w := range ws {
		switch v := w.SharePct(parts...); {
		case v < low:
			below++
		case v > high:
			above++
		}
	}
	calls := ""
	if len(ws) > 0 && ws[0].Steps > 0 && len(parts) == 1 {
		for _, c := range ws[0].Components {
			if c.Name == parts[0] {
				calls = fmt.Sprintf(" %d calls a step.", c.N/ws[0].Steps)
			}
		}
	}
	switch {
	case len(ws) == 0:
		return "Nothing was measured."
	case below == 0 && above == 0:
		return "Met at every load." + calls
	case below == len(ws):
		return "Below that at every load." + calls
	case above == len(ws):
		return "Above that at every load." + calls
	}
	return fmt.Sprintf("Below that at %d, above it at %d of %d loads.", below, above, len(ws)) + calls
}

// Alternative is the same work measured two ways at one load. Zero means not measured.
type Alternative struct {
	ServedNs int64 `json:"served_ns"` // as the server is set
	OtherNs  int64 `json:"other_ns"`
}

// Setting judges the belief that a setting is right, from calls measured with it and with the alternative.
// A difference under 2 % counts as none.
func Setting(id, claim, alternative string, ws []Window, alts []Alternative, ref data.Ref) data.Finding {
	f := data.Finding{ID: id, Claim: claim, Ref: ref}
	slower, when := where(ws, func(i int, _ Window) bool {
		a := at(alts, i)
		return a.OtherNs > 0 && a.ServedNs*100 > a.OtherNs*102
	})
	measured := 0
	for _, a := range alts {
		if a.OtherNs > 0 && a.ServedNs > 0 {
			measured++
		}
	}
	switch {
	case measured == 0:
		f.Verdict = data.Open
	case slower > 0:
		f.Verdict, f.Where = data.Rejected, when
	default:
		f.Verdict = data.Confirmed
	}
	if measured == 0 {
		f.Text = "No micro-benchmark of it was recorded."
	} else {
		f.Text = "Time of a call against " + alternative + ", at the message size of each load, measured alone."
	}
	f.Values = values(ws, func(i int, _ Window) string {
		a := at(alts, i)
		if a.OtherNs == 0 || a.ServedNs == 0 {
			return "open"
		}
		return units.Ratio(a.ServedNs, a.OtherNs, 2) + "×"
	})
	return f
}

// RoofPoint is where a kernel stands under its roof at one load. Zero intensity means not measured.
type RoofPoint struct {
	Intensity float64 `json:"intensity"` // FLOP/byte
	RoofPct   float64 `json:"roof_pct"`  // attained, in percent of the roof at this intensity
}

// MemoryBound judges the belief that a kernel is limited by memory: every point must lie left of the ridge.
func MemoryBound(id, claim string, ws []Window, pts []RoofPoint, ridge float64, ref data.Ref) data.Finding {
	f := data.Finding{ID: id, Claim: claim, Ref: ref, Verdict: data.Confirmed}
	right, when := where(ws, func(i int, _ Window) bool { return at(pts, i).Intensity > ridge })
	measured := 0
	for _, p := range pts {
		if p.Intensity > 0 {
			measured++
		}
	}
	switch {
	case measured == 0:
		f.Verdict = data.Open
	case right > 0:
		f.Verdict, f.Where = data.Rejected, when
	}
	f.Values = values(ws, func(i int, _ Window) string {
		p := at(pts, i)
		if p.Intensity == 0 {
			return "open"
		}
		return percent(units.Float(p.RoofPct, 0))
	})
	if measured == 0 {
		f.Text = "No micro-benchmark of these kernels was recorded."
		return f
	}
	side := "All sizes lie left of the ridge"
	if right > 0 {
		side = fmt.Sprintf("%d of %d sizes lie right of the ridge", right, measured)
	}
	f.Text = fmt.Sprintf("Share of the roof that it reaches. %s at %s FLOP/byte.", side, units.Float(ridge, 0))
	return f
}

// RanksWait judges the belief that a collective is slow because one rank waits for another.
// It needs the traces of two ranks; waiting that takes more than a fifth of the collective confirms it.
func RanksWait(ws []Window, ref data.Ref) data.Finding {
	f := data.Finding{ID: "waiting", Claim: "All-reduce is one rank waiting for another.", Ref: ref}
	known, seen := where(ws, func(_ int, w Window) bool { return len(w.WaitNs) > 0 })
	late, when := where(ws, func(_ int, w Window) bool { return len(w.WaitNs) > 0 && w.WaitNs[0]*5 > w.matchedNs(0) })
	const text = "Where several ranks were traced, this is how much of all-reduce time is waiting for the last one"
	switch {
	case known == 0:
		f.Verdict, f.Text = data.Open, "It takes the traces of two ranks that ran all-reduces at the same time."
	case late > 0:
		f.Verdict, f.Where, f.Text = data.Confirmed, when, text+"."
	default:
		f.Verdict, f.Where, f.Text = data.Rejected, seen, text+"; the rest is transfer."
	}
	if n := unmatched(ws); n > 0 {
		f.Text += fmt.Sprintf(" All-reduces without a partner in the other traces are left out: %s.", units.Count(int64(n)))
	}
	if known > 0 && known < len(ws) {
		f.Text += " Open where the trace of one rank was kept."
	}
	f.Values = values(ws, func(_ int, w Window) string {
		if len(w.WaitNs) == 0 {
			return "open"
		}
		return percent(w.waitPct(0))
	})
	return f
}

// matchedNs is the time of the all-reduces that were found on every rank, on the i-th rank of the report: the whole that
// its waiting is a part of.
func (w Window) matchedNs(i int) int64 { return w.WaitNs[i] + w.TransferNs + at(w.TailNs, i) }

// waitPct formats the waiting of the i-th rank in percent of its matched all-reduces.
func (w Window) waitPct(i int) string { return units.Percent(w.WaitNs[i], w.matchedNs(i), 1) }

// unmatched counts the all-reduces of the windows' own ranks that have no partner.
func unmatched(ws []Window) int {
	n := 0
	for _, w := range ws {
		n += at(w.Unmatched, 0)
	}
	return n
}
