// Package eval carries out simple expressions and assignments by reflection, so that the cell need not be compiled.
// It gives what compiled code gives, bit for bit, or says that it cannot.
//
// It parses nothing and checks no types: package session does. It has no state, and does not display values.
package eval

import (
	"io"
	"reflect"

	"github.com/rooflab/rooflab/kernel/proto"
)

// World is what expressions refer to.
type World struct {
	Lookup func(pkg, name string) any // a pointer to a variable, or a function, of a cell; nil if there is none
	Stdout io.Writer                  // where fmt.Print goes to
}

// step computes a value. It may call functions, and is run once.
type step func() []reflect.Value

// Prepare evaluates all of e that has no effect. The rest, calls and the assignment, is what run does; it returns the
// values of e. Ok is false if compiled code is needed to tell what e does: then nothing has happened.
func Prepare(e *proto.Expr, w World) (run func() []any, ok bool) {
	defer func() {
		if recover() != nil { // an index out of range, a nil pointer, a division by zero, or something unknown
			run, ok = nil, false
		}
	}()
	s := w.step(e)
	return func() []any {
		var out []any
		for _, v := range s() {
			out = append(out, plain(v))
		}
		return out
	}, true
}

// plain is the value of v as an argument of type any.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.Interface && v.IsNil() {
		return nil
	}
	return v.Interface()
}

// step prepares e. It panics if that goes wrong.
func (w World) step(e *proto.Expr) step {
	switch e.Op {
	case "set":
		return w.set(e)
	case "call", "method", "std":
		return w.call(e)
	}
	if !e.Calls() {
		v := w.value(e)
		if v.CanAddr() { // what it is now, not what it will be
			now := reflect.New(v.Type()).Elem()
			now.Set(v)
			v = now
		}
		return func() []reflect.Value { return []reflect.Value{v} }
	}
	args := make([]step, len(e.X))
	for i := range e.X {
		if e.X[i].Op == "lit" {
			v := literal(&e.X[i])
			args[i] = func() []reflect.Value { return []reflect.Value{v} }
			continue
		}
		args[i] = w.step(&e.X[i])
	}
	return func() []reflect.Value {
		v := make([]reflect.Value, len(args))
		for i, a := range args {
			v[i] = a()[0]
		}
		return []reflect.Value{operate(e, v)}
	}
}

// value evaluates an expression without calls.
func (w World) value(e *proto.Expr) reflect.Value {
	switch e.Op {
	case "lit":
		return literal(e)
	case "nil":
		return reflect.Value{}
	case "var":
		return reflect.ValueOf(w.Lookup(e.Pkg, e.Name)).Elem()
	case "bin":
		l := w.value(&e.X[0])
		if e.Name == "&&" && !l.Bool() || e.Name == "||" && l.Bool() {
			return l
		}
		return operate(e, []reflect.Value{l, w.value(&e.X[1])})
	}
	v := make([]reflect.Value, len(e.X))
	for i := range e.X {
		v[i] = w.value(&e.X[i])
	}
	return operate(e, v)
}

// call prepares a call: all arguments that are no calls themselves are evaluated.
func (w World) call(e *proto.Expr) step {
	fn, xs := w.function(e)
	if fn.Kind() != reflect.Func || fn.IsNil() {
		panic("no function")
	}
	t := fn.Type()
	args := make([]step, len(xs))
	for i := range xs {
		var to reflect.Type
		if t.IsVariadic() && i >= t.NumIn()-1 {
			to = t.In(t.NumIn() - 1).Elem()
		} else {
			to = t.In(i)
		}
		if xs[i].Calls() {
			args[i] = w.step(&xs[i])
			continue
		}
		v := assignable(w.value(&xs[i]), to)
		if v.CanAddr() { // arguments are copies
			c := reflect.New(v.Type()).Elem()
			c.Set(v)
			v = c
		}
		args[i] = func() []reflect.Value { return []reflect.Value{v} }
	}
	return func() []reflect.Value {
		in := make([]reflect.Value, len(args))
		for i, a := range args {
			in[i] = a()[0]
		}
		return fn.Call(in)
	}
}

// function finds what is called, and the arguments.
func (w World) function(e *proto.Expr) (reflect.Value, []proto.Expr) {
	switch e.Op {
	case "std":
		return w.std(e.Name), e.X
	case "method":
		recv := w.value(&e.X[0])
		if recv.Kind() == reflect.Interface && recv.IsNil() {
			panic("nil interface")
		}
		if recv.Kind() != reflect.Pointer && recv.Kind() != reflect.Interface && recv.CanAddr() {
			recv = recv.Addr()
		}
		return recv.MethodByName(e.Name), e.X[1:]
	}
	fn := reflect.ValueOf(w.Lookup(e.Pkg, e.Name))
	for fn.Kind() == reflect.Pointer {
		fn = fn.Elem()
	}
	return fn, e.X
}

// assignable makes a value fit a place of a type. Only constants, comparisons and nil may need it.
func assignable(v reflect.Value, to reflect.Type) reflect.Value {
	switch {
	case !v.IsValid():
		return reflect.Zero(to)
	case v.Type().AssignableTo(to):
		return v
	case v.Kind() == to.Kind() && v.CanConvert(to) && v.Type().PkgPath() == "":
		return v.Convert(to)
	}
	panic("not assignable")
}

// set prepares an assignment: e.X[0] is the place, e.X[1] the value, e.Name the operator.
func (w World) set(e *proto.Expr) step {
	place, x := &e.X[0], &e.X[1]
	if place.Op == "index" {
		if m := w.value(&place.X[0]); m.Kind() == reflect.Map {
			return w.setElem(m, w.value(&place.X[1]), e)
		}
	}
	dst := w.value(place)
	if !dst.CanSet() {
		panic("not a variable")
	}
	if x.Calls() {
		s := w.step(x)
		w.fits(x, dst.Type())
		return func() []reflect.Value {
			dst.Set(assignable(s()[0], dst.Type()))
			return nil
		}
	}
	v := w.newValue(e.Name, dst, x)
	return func() []reflect.Value {
		dst.Set(v)
		return nil
	}
}

// setElem prepares an assignment to an element of a map.
func (w World) setElem(m, key reflect.Value, e *proto.Expr) step {
	if m.IsNil() || e.X[1].Calls() {
		panic("the map is nil")
	}
	key = assignable(key, m.Type().Key())
	old := m.MapIndex(key) // also panics if the key cannot be hashed
	if !old.IsValid() {
		old = reflect.Zero(m.Type().Elem())
	}
	v := w.newValue(e.Name, old, &e.X[1])
	return func() []reflect.Value {
		m.SetMapIndex(key, v)
		return nil
	}
}

// newValue is what an assignment gives a place that has the value old now.
func (w World) newValue(op string, old reflect.Value, x *proto.Expr) reflect.Value {
	v := w.value(x)
	if op != "=" {
		if x.Op == "lit" && op != "<<=" && op != ">>=" {
			v = v.Convert(old.Type())
		}
		v = binary(op[:len(op)-1], old, v)
	}
	v = assignable(v, old.Type())
	fixed := reflect.New(old.Type()).Elem()
	fixed.Set(v)
	return fixed
}

// fits panics unless the result of the outermost call in x can be assigned to a type as it is.
func (w World) fits(x *proto.Expr, to reflect.Type) {
	if x.Op != "call" && x.Op != "std" && x.Op != "method" {
		panic("a computed value")
	}
	fn, _ := w.function(x)
	if !fn.Type().Out(0).AssignableTo(to) {
		panic("not assignable")
	}
}
