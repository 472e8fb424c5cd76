package model

import (
	"fmt"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Shapes returns the table of every GEMM of a decode step on one of tp ranks.
func (m Model) Shapes(tp, tokens int64) (data.Table, error) {
	r, err := m.Rank(tp)
	if err != nil {
		return data.Table{}, err
	}
	return r.Shapes(tokens), nil
}

// StepTable returns the totals of a decode step on one of tp ranks, one column for each number of tokens.
func (m Model) StepTable(tp int64, tokens ...int64) (data.Table, error) {
	r, err := m.Rank(tp)
	if err != nil {
		return data.Table{}, err
	}
	return r.StepTable(tokens...), nil
}

// which says which rank a table is of.
func (r Rank) which() string {
	if r.TP == 1 {
		return "the only rank"
	}
	return fmt.Sprintf("one of %d ranks", r.TP)
}

// Shapes returns the table of every GEMM of a decode step of the tokens.
func (r Rank) Shapes(tokens int64) data.Table {
	t := data.Table{ID: "shapes", Title: fmt.Sprintf("GEMMs of one decode step of %d tokens on %s", tokens, r.which()),
		Columns: []data.Column{{Head: "Component"}, {Head: "Part"}, {Head: "Calls", Unit: "a step", Numeric: true},
			{Head: "M", Numeric: true}, {Head: "N", Numeric: true}, {Head: "K", Numeric: true},
			{Head: "Matrices", Unit: "read", Numeric: true}, {Head: "Weights"}, {Head: "Bytes", Unit: "MB a call", Numeric: true},
			{Head: "FLOP", Unit: "M a call", Numeric: true}, {Head: "Intensity", Unit: "FLOP/byte", Numeric: true}}}
	if r.Model.Experts > 0 {
		t.Note = "Experts hit: the number expected under uniform routing; real routers are skewed and hit fewer."
	}
	for _, g := range r.Gemms(tokens) {
		hit := units.Count(g.Matrices)
		if g.Component == "moe.experts" {
			hit = units.Float(g.Hit, 1) + " of " + hit
		}
		t.Rows = append(t.Rows, data.Row{Component: g.Component, Cells: []string{
			data.ComponentLabel(g.Component), g.Part, units.Count(g.Count), units.Count(g.M), units.Count(g.N), units.Count(g.K), hit, g.Format,
			units.Fixed(g.WeightBytes(), 1e6, 3), units.Fixed(g.FLOP, 1e6, 1), units.Ratio(g.FLOP, g.WeightBytes(), 2)}})
	}
	return t
}

// StepTable returns the totals of a decode step, one column for each number of tokens.
func (r Rank) StepTable(tokens ...int64) data.Table {
	t := data.Table{ID: "step", Title: "One decode step on " + r.which(), Columns: []data.Column{{Head: "Quantity"}, {Head: "Unit"}},
		Note: "Weights: every GEMM once. FLOP: GEMMs only, without attention over the KV cache."}
	rows := []data.Row{
		{Cells: []string{"Distinct experts a layer, expected", "of " + units.Count(r.Model.Experts)}},
		{Cells: []string{"Weights read", "GB"}},
		{Cells: []string{"of which routed experts", "GB"}, Component: "moe.experts"},
		{Cells: []string{"FLOP", "G"}},
		{Cells: []string{"KV cache, a token of context", "kB"}, Component: "attention.core"},
		{Cells: []string{"All-reduces", "calls"}, Component: "allreduce"},
		{Cells: []string{"All-reduce message", "kB"}, Component: "allreduce"},
	}
	for _, n := range tokens {
		s := r.Step(n)
		head := units.Count(n) + " tokens"
		if n == 1 {
			head = "1 token"
		}
		t.Columns = append(t.Columns, data.Column{Head: head, Numeric: true})
		for i, cell := range []string{units.Float(s.ExpertsHit, 1), units.Fixed(s.WeightBytes, 1e9, 2), units.Fixed(s.ExpertBytes, 1e9, 2),
			units.Fixed(s.FLOP, 1e9, 1), units.Fixed(s.KVBytes, 1e3, 1), units.Count(s.AllReduces), units.Fixed(s.AllReduceBytes, 1e3, 1)} {
			rows[i].Cells = append(rows[i].Cells, cell)
		}
	}
	if r.Model.Experts == 0 { // no row about experts for a dense model
		rows = append(rows[1:2:2], rows[3:]...)
	}
	t.Rows = rows
	return t
}
