package model

import "github.com/rooflab/rooflab/trace/roofline"

// FloorNs returns the shortest time under a roof for the GEMMs of a component ("attention.proj", "moe.experts", ...) in one
// decode step: each product reads its weights once or runs at the compute peak, whichever takes longer, one after the other.
// Activations are not counted, so it is a floor. hit is the number of distinct experts a layer (ExpertsHit, or measured).
func (r Rank) FloorNs(roof roofline.Roof, component string, tokens int64, hit float64) int64 {
	var ns int64
	for _, g := range r.GemmsHit(tokens, hit) {
		if g.Component == component {
			ns += roof.FloorNs(g.Count*g.FLOP, g.Count*g.WeightBytes())
		}
	}
	return ns
}
