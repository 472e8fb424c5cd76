package roofline

import (
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Floor compares a component's measured time with the shortest that the machine allows, one entry a load.
// Times are of one step.
type Floor struct {
	Component string  `json:"component"` // fixed component name
	Why       string  `json:"why"`       // what the floor is: "weights read once", "fastest measured on this path"
	FloorNs   []int64 `json:"floor_ns"`
	Ns        []int64 `json:"ns"`
}

// FloorTable shows how many times longer than its floor each component takes. Loads heads the columns.
func FloorTable(loads []string, floors []Floor) data.Table {
	t := data.Table{ID: "floors", Title: "Distance to the floor: measured time ÷ shortest time that this GPU or path allows",
		Columns: []data.Column{{Head: "Component"}, {Head: "Floor is"}}}
	for _, l := range loads {
		t.Columns = append(t.Columns, data.Column{Head: l, Unit: "floor, ms", Numeric: true}, data.Column{Unit: "×", Numeric: true})
	}
	for _, f := range floors {
		row := data.Row{Component: f.Component, Cells: []string{data.ComponentLabel(f.Component), f.Why}}
		for i := range loads {
			if i >= len(f.FloorNs) || i >= len(f.Ns) {
				row.Cells = append(row.Cells, "not measured", "")
				continue
			}
			row.Cells = append(row.Cells, units.Ms(f.FloorNs[i], 2), units.Ratio(f.Ns[i], f.FloorNs[i], 1))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Bound returns Amdahl's limit for a part of a step: the step if the part cost nothing.
// No work on that part alone can gain more.
func Bound(stepNs, partNs int64) data.Gain {
	return data.Gain{StepNs: stepNs, FloorNs: max(stepNs-partNs, 0)}
}

// Replaced is Bound with a measured alternative: the step if the part took newNs instead of partNs.
func Replaced(stepNs, partNs, newNs int64) data.Gain {
	g := Bound(stepNs, partNs)
	g.AfterNs = stepNs - partNs + newNs
	return g
}

// Scale returns ns x num / den, rounded to the nearest: a time measured in one place carried over by a ratio of another.
func Scale(ns, num, den int64) int64 { return mulDiv(ns, num, den) }
