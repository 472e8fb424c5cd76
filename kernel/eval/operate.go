package eval

import (
	"cmp"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/kernel/proto"
)

// operate carries out one operation on values. It panics where compiled code does, and where it does not know.
func operate(e *proto.Expr, v []reflect.Value) reflect.Value {
	switch e.Op {
	case "deref":
		if v[0].IsNil() {
			panic("nil pointer")
		}
		return v[0].Elem()
	case "field":
		return field(v[0], e.Path)
	case "index":
		return index(v[0], v[1])
	case "slice":
		return slice(v[0], v[1:])
	case "len":
		return reflect.ValueOf(v[0].Len())
	case "cap":
		return reflect.ValueOf(v[0].Cap())
	case "conv":
		return convert(v[0], e.Kind)
	case "un":
		return unary(e.Name, v[0])
	case "bin":
		l, r := v[0], v[1]
		if e.Name != "<<" && e.Name != ">>" {
			if e.X[0].Op == "lit" {
				l = l.Convert(r.Type())
			} else if e.X[1].Op == "lit" {
				r = r.Convert(l.Type())
			}
		}
		return binary(e.Name, l, r)
	}
	panic("unknown operation " + e.Op)
}

func field(v reflect.Value, path []int) reflect.Value {
	for _, i := range path {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if !v.CanAddr() {
			p := reflect.New(v.Type()).Elem()
			p.Set(v)
			v = p
		}
		f := v.Field(i)
		v = reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem() // also if it is unexported
	}
	return v
}

func index(v, i reflect.Value) reflect.Value {
	if v.Kind() != reflect.Map {
		return v.Index(integer(i))
	}
	if r := v.MapIndex(assignable(i, v.Type().Key())); r.IsValid() {
		return r
	}
	return reflect.Zero(v.Type().Elem())
}

func slice(v reflect.Value, at []reflect.Value) reflect.Value {
	low, high := 0, v.Len()
	if at[0].IsValid() {
		low = integer(at[0])
	}
	if at[1].IsValid() {
		high = integer(at[1])
	}
	if at[2].IsValid() {
		return v.Slice3(low, high, integer(at[2]))
	}
	return v.Slice(low, high)
}

func integer(v reflect.Value) int {
	if v.CanUint() {
		if v.Uint() > math.MaxInt {
			panic("out of range")
		}
		return int(v.Uint())
	}
	return int(v.Int())
}

var basic = map[string]reflect.Type{
	"bool": reflect.TypeFor[bool](), "string": reflect.TypeFor[string](),
	"int": reflect.TypeFor[int](), "int8": reflect.TypeFor[int8](), "int16": reflect.TypeFor[int16](),
	"int32": reflect.TypeFor[int32](), "rune": reflect.TypeFor[int32](), "int64": reflect.TypeFor[int64](),
	"uint": reflect.TypeFor[uint](), "uint8": reflect.TypeFor[uint8](), "byte": reflect.TypeFor[byte](),
	"uint16": reflect.TypeFor[uint16](), "uint32": reflect.TypeFor[uint32](), "uint64": reflect.TypeFor[uint64](),
	"uintptr": reflect.TypeFor[uintptr](), "float32": reflect.TypeFor[float32](), "float64": reflect.TypeFor[float64](),
	"complex64": reflect.TypeFor[complex64](), "complex128": reflect.TypeFor[complex128](),
	"[]byte": reflect.TypeFor[[]byte](), "[]uint8": reflect.TypeFor[[]byte](), "[]rune": reflect.TypeFor[[]rune](), "[]int32": reflect.TypeFor[[]rune](),
}

func literal(e *proto.Expr) reflect.Value {
	t := basic[e.Kind]
	v := reflect.New(t).Elem()
	var err error
	switch {
	case e.Kind == "bool":
		v.SetBool(e.Lit == "true")
	case e.Kind == "string":
		v.SetString(e.Lit)
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(e.Lit, 10, 64)
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(e.Lit, 10, 64)
		v.SetUint(n)
	case v.CanFloat():
		v.SetFloat(float(e.Lit))
	case v.CanComplex():
		re, im, _ := strings.Cut(e.Lit, " ")
		v.SetComplex(complex(float(re), float(im)))
	default:
		panic("literal of " + e.Kind)
	}
	if err != nil {
		panic(err)
	}
	return v
}

func float(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return f
}

// convert is T(v). What a float outside the range of an integer becomes depends on the machine, so that is refused.
func convert(v reflect.Value, kind string) reflect.Value {
	t := basic[kind]
	if v.CanFloat() && (t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr) {
		f := math.Trunc(v.Float())
		n := v.Convert(t)
		if f < -1<<62 || f > 1<<62 || n.CanInt() && float64(n.Int()) != f || n.CanUint() && (f < 0 || float64(n.Uint()) != f) || f != f {
			panic("out of range")
		}
		return n
	}
	return v.Convert(t)
}

func unary(op string, v reflect.Value) reflect.Value {
	switch op {
	case "==nil":
		return reflect.ValueOf(v.IsNil())
	case "!=nil":
		return reflect.ValueOf(!v.IsNil())
	}
	r := reflect.New(v.Type()).Elem()
	switch {
	case op == "!":
		r.SetBool(!v.Bool())
	case op == "+":
		r.Set(v)
	case op == "-" && v.CanInt():
		r.SetInt(-v.Int())
	case op == "-" && v.CanUint():
		r.SetUint(-v.Uint())
	case op == "-" && v.CanFloat():
		r.SetFloat(-v.Float())
	case op == "^" && v.CanInt():
		r.SetInt(^v.Int())
	case op == "^" && v.CanUint():
		r.SetUint(^v.Uint())
	default:
		panic("unknown operator " + op)
	}
	return r
}

func binary(op string, l, r reflect.Value) reflect.Value {
	switch op {
	case "==":
		return reflect.ValueOf(equal(l, r))
	case "!=":
		return reflect.ValueOf(!equal(l, r))
	case "<", "<=", ">", ">=":
		return reflect.ValueOf(less(op, l, r))
	}
	z := reflect.New(l.Type()).Elem() // Set* cut off what does not fit, as arithmetic does
	switch {
	case op == "<<" || op == ">>":
		shift(op, z, l, r)
	case l.Kind() == reflect.Bool && op == "&&":
		z.SetBool(l.Bool() && r.Bool())
	case l.Kind() == reflect.Bool && op == "||":
		z.SetBool(l.Bool() || r.Bool())
	case l.Kind() == reflect.String && op == "+":
		z.SetString(l.String() + r.String())
	case l.CanInt():
		z.SetInt(arith(op, l.Int(), r.Int()))
	case l.CanUint():
		z.SetUint(arith(op, l.Uint(), r.Uint()))
	case l.Kind() == reflect.Float32:
		z.SetFloat(float64(floats(op, float32(l.Float()), float32(r.Float()))))
	case l.Kind() == reflect.Float64:
		z.SetFloat(floats(op, l.Float(), r.Float()))
	default:
		panic("unknown operator " + op)
	}
	return z
}

// equal compares two values of one type. Values of interface type are compared by what is in them.
func equal(l, r reflect.Value) bool {
	if l.Kind() == reflect.Func || l.Kind() == reflect.Map || l.Kind() == reflect.Slice {
		panic("not comparable")
	}
	return plain(l) == plain(r)
}

func less(op string, l, r reflect.Value) bool {
	switch {
	case l.CanInt():
		return ordered(op, l.Int(), r.Int())
	case l.CanUint():
		return ordered(op, l.Uint(), r.Uint())
	case l.CanFloat():
		return ordered(op, l.Float(), r.Float())
	case l.Kind() == reflect.String:
		return ordered(op, l.String(), r.String())
	}
	panic("not ordered")
}

func ordered[T cmp.Ordered](op string, a, b T) bool {
	switch op {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}

func arith[T int64 | uint64](op string, a, b T) T {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	case "%":
		return a % b
	case "&":
		return a & b
	case "|":
		return a | b
	case "^":
		return a ^ b
	case "&^":
		return a &^ b
	}
	panic("unknown operator " + op)
}

func floats[T float32 | float64](op string, a, b T) T {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	}
	panic("unknown operator " + op)
}

func shift(op string, z, l, r reflect.Value) {
	var n uint64
	if r.CanInt() {
		if r.Int() < 0 {
			panic("negative shift amount")
		}
		n = uint64(r.Int())
	} else {
		n = r.Uint()
	}
	switch {
	case l.CanInt() && op == "<<":
		z.SetInt(l.Int() << n)
	case l.CanInt():
		z.SetInt(l.Int() >> n)
	case op == "<<":
		z.SetUint(l.Uint() << n)
	default:
		z.SetUint(l.Uint() >> n)
	}
}
