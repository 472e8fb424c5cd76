// Package hidden cannot be imported by cells.
package hidden

// Secret is part of a signature in package shape.
type Secret struct{ N int }

// Base lends its method to types of other packages.
type Base struct{}

// Name is promoted.
func (Base) Name() string { return "base" }
