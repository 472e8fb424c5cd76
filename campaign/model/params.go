package model

import (
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Params counts the parameters of the text model by part. Multi-token-prediction layers and vision towers are not in it.
type Params struct {
	Embedding, LMHead, Attention, Indexer, Norms, DenseMLP, Router, Shared, Routed int64
	MTP                                                                            int64 // one extra layer each with its projection; not in Total
}

// Total returns the sum of all parts of the text model.
func (p Params) Total() int64 {
	return p.Embedding + p.LMHead + p.Attention + p.Indexer + p.Norms + p.DenseMLP + p.Router + p.Shared + p.Routed
}

// Params sums the parameters from the keys, exactly.
func (m Model) Params() Params {
	p := Params{Embedding: m.Vocab * m.Hidden, Norms: m.Hidden}
	if !m.Tied {
		p.LMHead = m.Vocab * m.Hidden
	}
	for i := int64(0); i < m.Layers; i++ {
		m.addLayer(&p, i)
	}
	if m.MTP > 0 {
		p.MTP = m.MTP * (m.mtpLayer() + 3*m.Hidden + 2*m.Hidden*m.Hidden)
	}
	return p
}

func (m Model) addLayer(p *Params, i int64) {
	for _, w := range m.layerModules(i) {
		*p.part(w) += w.params()
	}
	attention, indexer := m.extras(i)
	p.Attention += attention
	p.Indexer += indexer
	p.Norms += 2 * m.Hidden
}

// mtpLayer counts one more layer like the last one that has full attention.
func (m Model) mtpLayer() int64 {
	for i := m.Layers - 1; i >= 0; i-- {
		if !m.kinds[i].linear {
			var p Params
			m.addLayer(&p, i)
			return p.Total()
		}
	}
	return 0
}

func (p *Params) part(w module) *int64 {
	switch {
	case strings.HasPrefix(w.part, "index_"):
		return &p.Indexer
	case w.component == "attention.proj":
		return &p.Attention
	case w.component == "mlp.dense":
		return &p.DenseMLP
	case w.component == "moe.router":
		return &p.Router
	case w.component == "moe.shared_expert":
		return &p.Shared
	}
	return &p.Routed
}

// ActiveParams returns the parameters a token meets: all but the routed experts that it does not use.
// Owners count differently (with or without the embedding), so quote it with its definition.
func (m Model) ActiveParams() int64 {
	p := m.Params()
	if m.Experts == 0 {
		return p.Total()
	}
	return p.Total() - p.Routed/m.Experts*(m.Experts-m.TopK)
}

// WeightBytes returns the bytes of the text model's weights as the checkpoint stores them: packed weights with scales
// where quantised, the model's dtype elsewhere.
func (m Model) WeightBytes() int64 {
	el := m.BytesPerElement()
	total := m.Params().Total() * el
	for i := int64(0); i < m.Layers; i++ {
		for _, w := range m.layerModules(i) {
			packed, scales := m.moduleFormat(i, w).Bytes(w.k, w.n)
			total += (packed + scales - w.k*w.n*el) * w.copies
		}
	}
	return total
}

// ParamTable shows the parameters by part.
func (m Model) ParamTable() data.Table {
	p := m.Params()
	t := data.Table{ID: "params", Title: "Parameters of the text model", Note: strings.Join(m.Notes, "; "),
		Columns: []data.Column{{Head: "Part"}, {Head: "Parameters", Numeric: true}, {Head: "Share", Unit: "%", Numeric: true}}}
	total := p.Total()
	for _, r := range []struct {
		label     string
		n         int64
		component string
	}{
		{"Routed experts", p.Routed, "moe.experts"}, {"Attention", p.Attention, "attention.proj"},
		{"Sparse-attention indexer", p.Indexer, "attention.proj"}, {"Shared experts", p.Shared, "moe.shared_expert"},
		{"Dense MLP", p.DenseMLP, "mlp.dense"}, {"Router", p.Router, "moe.router"},
		{"Embedding", p.Embedding, "embedding"}, {"lm_head", p.LMHead, "lm_head"}, {"Norms", p.Norms, "norm"},
	} {
		if r.n > 0 {
			t.Rows = append(t.Rows, data.Row{Component: r.component, Cells: []string{r.label, units.Count(r.n), units.Percent(r.n, total, 2)}})
		}
	}
	t.Rows = append(t.Rows,
		data.Row{Bold: true, Rule: true, Cells: []string{"Total", units.Count(total), units.Percent(total, total, 2)}},
		data.Row{Cells: []string{"Used by one token", units.Count(m.ActiveParams()), units.Percent(m.ActiveParams(), total, 2)}})
	return t
}
