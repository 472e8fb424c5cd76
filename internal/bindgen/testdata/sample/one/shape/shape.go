// Package shape holds one of everything that the generator must cope with.
package shape

import (
	"context"
	"io"

	"example.com/sample/internal/hidden"
	other "example.com/sample/two/shape"
)

// Constants of all kinds and sizes.
const (
	Small               = 7
	Wide                = 1 << 40
	Unsigned            = 1<<64 - 1
	Huge                = 1 << 100
	Eighth              = 0.125
	TooLarge            = 1e400
	Imaginary           = 2i
	Letter              = 'x'
	Word                = "a \"word\""
	Yes                 = true
	Typed         Level = 3
	TypedUnsigned       = uint64(1<<64 - 1)
	unexported          = 1
)

// Level is a named integer.
type Level int

// String names it.
func (l Level) String() string { return "level" }

// Default is a variable.
var Default = Box{Width: unexported}

// Box has a promoted method beside its own.
type Box struct {
	hidden.Base
	Width int
}

// Area is its own.
func (b *Box) Area() int { return b.Width }

// Drawer can be implemented by a type declared in a cell.
type Drawer interface {
	Draw(ctx context.Context, w io.Writer, boxes ...*Box) (n int, err error)
	Side(s other.Side)
	Options() func(map[string]*Box) <-chan []int
}

// Sealed has a method that only this package can have.
type Sealed interface{ sealed() }

// Leaky has a type that others cannot name.
type Leaky interface{ Leak(hidden.Secret) }

// Clash has a method that is called like a field of the proxy.
type Clash interface{ Object() int }

// Empty has no method.
type Empty interface{}

// Number is a constraint.
type Number interface{ ~int | ~float64 }

// Pair is generic.
type Pair[A, B any] struct {
	First  A
	Second B
}

// IntPair is not.
type IntPair = Pair[int, int]

// PairOf is a generic alias.
type PairOf[A any] = Pair[A, int]

// Max is generic.
func Max[N Number](a, b N) N { return max(a, b) }

// Old is an alias.
//
// Deprecated: use Box.
type Old = Box

// Secret is an alias of a type that cannot be imported.
type Secret = hidden.Secret

// Reveal returns a type that cells cannot name but can use.
func Reveal(d Drawer, s Sealed, l Leaky) hidden.Secret { return hidden.Secret{} }

// Numbers returns an instance of a generic type.
func Numbers() IntPair { return IntPair{} }
