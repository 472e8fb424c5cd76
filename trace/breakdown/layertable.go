package breakdown

import (
	"fmt"
	"slices"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// LayerTable shows families of components by layer. A layer is odd when its time, or that of a family that matters in it, is more
// than 25 % off the median of the layers: the largest such difference is named.
func (r Report) LayerTable(top int) data.Table {
	var families []string
	for _, f := range data.Families() {
		if slices.ContainsFunc(r.Ranks, func(k Rank) bool {
			return slices.ContainsFunc(k.Layers, func(l LayerComponent) bool { return data.Family(l.Component) == f })
		}) {
			families = append(families, f)
		}
	}
	v := view{id: "layers", title: r.words().time + " by layer", heads: []string{"Layer"}, times: []timeColumn{{"Total", true}}, last: "Odd", perStep: true, briefUnits: true,
		note: "Times are of one step. Odd: the largest difference from the median layer, when it is more than 25 %, of the total or of a family with 5 % of a layer."}
	for _, f := range families {
		v.times = append(v.times, timeColumn{f, true})
	}
	return r.build(v, top, func(rank Rank) []line { return layerLines(rank, families) })
}

// layerLines sums by layer and family: the total first. What stands outside the layers comes last.
func layerLines(rank Rank, families []string) []line {
	var lines []line
	var outside *line
	for at, l := range rank.Layers { // by layer
		if at == 0 || rank.Layers[at-1].Layer != l.Layer {
			lines = append(lines, line{heads: []string{fmt.Sprint(l.Layer)}, ns: make([]int64, 1+len(families))})
		}
		now := &lines[len(lines)-1]
		now.n += int64(l.N)
		now.ns[0] += l.Ns
		now.ns[1+slices.Index(families, data.Family(l.Component))] += l.Ns
	}
	if len(rank.Layers) > 0 && rank.Layers[0].Layer < 0 {
		outside = &lines[0]
		outside.heads = []string{"none"}
		lines = append(lines[1:], *outside)
	}
	n := len(lines)
	if outside != nil {
		n--
	}
	markOdd(lines[:n], families)
	return lines
}

// markOdd names what is odd about a layer.
func markOdd(layers []line, families []string) {
	names := append([]string{"total"}, families...)
	medians := make([]int64, len(names))
	for c := range names {
		medians[c] = medianOf(layers, c)
	}
	for i := range layers {
		l := &layers[i]
		most := int64(0)
		for c, name := range names {
			off := max(l.ns[c]-medians[c], medians[c]-l.ns[c])
			matters := max(l.ns[c], medians[c])*20 >= medians[0]
			if !matters || off*4 <= medians[c] || off <= most {
				continue
			}
			most = off
			if medians[c] == 0 {
				l.last = name + " added"
			} else {
				l.last = name + " " + signed(units.Percent(l.ns[c]-medians[c], medians[c], 0)) + units.HardSpace + "%"
			}
		}
	}
}

func signed(number string) string {
	if number[0] >= '0' && number[0] <= '9' {
		return "+" + number
	}
	return number
}

// medianOf is the lower median of a column.
func medianOf(lines []line, column int) int64 {
	if len(lines) == 0 {
		return 0
	}
	var all []int64
	for _, l := range lines {
		all = append(all, l.ns[column])
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
