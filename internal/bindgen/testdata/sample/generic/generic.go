// Package generic has nothing that cells can use.
package generic

// Keys is generic.
func Keys[M ~map[K]V, K comparable, V any](m M) []K { return nil }
