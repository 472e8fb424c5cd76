package trace

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// sortKernels sorts by start; equal starts get an order that does not depend on the file's. Profilers write kernels nearly in
// order, those of a side stream a few places late: each is put where it belongs, unless that takes too many moves.
func sortKernels(ks []Kernel, names []string) {
	order := func(x, y Kernel) int {
		if x.Start != y.Start {
			return cmp.Compare(x.Start, y.Start)
		}
		return cmp.Or(cmp.Compare(x.Dur, y.Dur), strings.Compare(names[x.Name], names[y.Name]), cmp.Compare(x.Stream, y.Stream),
			cmp.Compare(x.Correlation, y.Correlation), cmp.Compare(x.Device, y.Device))
	}
	moves := 16 * len(ks)
	for i := 1; i < len(ks); i++ {
		k := ks[i]
		if order(ks[i-1], k) <= 0 {
			continue
		}
		at := sort.Search(i-1, func(j int) bool { return order(ks[j], k) > 0 })
		if moves -= i - at; moves < 0 {
			slices.SortFunc(ks, order)
			return
		}
		copy(ks[at+1:i+1], ks[at:i])
		ks[at] = k
	}
}
