// Package shape has the name of another package.
package shape

// Side is a type of this package.
type Side int

// Left is one.
const Left Side = 1
