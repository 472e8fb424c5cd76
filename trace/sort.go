package trace

import (
	"cmp"
	"slices"
	"strings"
)

// sortKernels sorts by start; equal starts get an order that does not depend on the file's. Profilers write kernels nearly in
// order, so the few that stand too late are taken out, sorted, and merged back.
func sortKernels(ks []Kernel, names []string) {
	order := func(x, y Kernel) int {
		if x.Start != y.Start {
			return cmp.Compare(x.Start, y.Start)
		}
		return cmp.Or(cmp.Compare(x.Dur, y.Dur), strings.Compare(names[x.Name], names[y.Name]), cmp.Compare(x.Stream, y.Stream),
			cmp.Compare(x.Correlation, y.Correlation), cmp.Compare(x.Device, y.Device))
	}
	var late []Kernel
	n := 0 // ks[:n] is in order; ks[n:i] is room for the late ones
	for i, k := range ks {
		switch {
		case n == 0 || order(ks[n-1], k) <= 0:
			ks[n] = k
			n++
		case len(late) <= len(ks)/16:
			late = append(late, k)
		default: // not nearly in order
			copy(ks[n:i], late)
			slices.SortFunc(ks, order)
			return
		}
	}
	slices.SortFunc(late, order)
	for to := len(ks) - 1; len(late) > 0; to-- {
		if last := late[len(late)-1]; n == 0 || order(ks[n-1], last) <= 0 {
			ks[to] = last
			late = late[:len(late)-1]
		} else {
			ks[to] = ks[n-1]
			n--
		}
	}
}
