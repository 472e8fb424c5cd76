package main

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Bounds of what is shown as text. A notebook is no place for more, and values that contain themselves would fill the
// stack.
const (
	maxNodes = 200_000 // parts of a value that are looked at
	maxText  = 128 << 10
	maxDepth = 200
)

// plain is a value as text, as fmt.Sprint writes it, but never more than a notebook bears. It reports whether that is all.
func plain(v any) (text string, whole bool) {
	ok := printable(v)
	if ok {
		text = sprint(v)
	} else {
		p := &printer{left: maxText / 4}
		p.print(reflect.ValueOf(v), 0)
		text = p.b.String()
	}
	if len(text) > maxText {
		cut := maxText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		return fmt.Sprintf("%s… (%d bytes; print the value to see all of it)", text[:cut], len(text)), false
	}
	if !ok {
		text += "… (too large or contains itself; not all of it is shown)"
	}
	return text, ok
}

// sprint contains panics that fmt does not: those of methods of nil receivers inside Format, for instance.
func sprint(v any) (s string) {
	defer func() {
		if r := recover(); r != nil {
			s = fmt.Sprintf("%T (panic: %s)", v, panicText(r))
		}
	}()
	return fmt.Sprint(v)
}

// printable reports whether fmt can print a value: it is not too large, not too deep and does not contain itself.
func printable(v any) bool {
	p := probe{left: maxNodes, path: map[visit]bool{}}
	return p.walk(reflect.ValueOf(v), 0)
}

type visit struct {
	at  uintptr
	typ reflect.Type
}

type probe struct {
	left int
	path map[visit]bool
}

func (p *probe) walk(v reflect.Value, depth int) bool {
	if p.left--; p.left < 0 || depth > maxDepth {
		return false
	}
	if !v.IsValid() || isText(v) {
		return true
	}
	switch v.Kind() {
	case reflect.Interface:
		return v.IsNil() || p.walk(v.Elem(), depth+1)
	case reflect.Pointer:
		if v.IsNil() || depth > 0 { // fmt prints inner pointers as addresses
			return true
		}
		return p.enter(v.Pointer(), v.Type(), func() bool { return p.walk(v.Elem(), depth+1) })
	case reflect.Struct:
		for i := range v.NumField() {
			if !p.walk(v.Field(i), depth+1) {
				return false
			}
		}
	case reflect.Array:
		return p.elements(v, depth)
	case reflect.Slice:
		return v.IsNil() || p.enter(v.Pointer(), v.Type(), func() bool { return p.elements(v, depth) })
	case reflect.Map:
		return v.IsNil() || p.enter(v.Pointer(), v.Type(), func() bool {
			for it := v.MapRange(); it.Next(); {
				if !p.walk(it.Key(), depth+1) || !p.walk(it.Value(), depth+1) {
					return false
				}
			}
			return true
		})
	}
	return true
}

func (p *probe) elements(v reflect.Value, depth int) bool {
	if isBasic(v.Type().Elem()) {
		p.left -= v.Len()
		return p.left >= 0
	}
	for i := range v.Len() {
		if !p.walk(v.Index(i), depth+1) {
			return false
		}
	}
	return true
}

// enter walks what a reference leads to, unless it is already inside of it.
func (p *probe) enter(at uintptr, t reflect.Type, f func() bool) bool {
	k := visit{at, t}
	if p.path[k] {
		return false
	}
	p.path[k] = true
	defer delete(p.path, k)
	return f()
}

func isBasic(t reflect.Type) bool {
	return t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String
}

// isText reports whether fmt lets the value print itself.
func isText(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	t := v.Type()
	return t.Implements(errorType) || t.Implements(stringerType) || t.Implements(formatterType)
}

var (
	errorType     = reflect.TypeFor[error]()
	stringerType  = reflect.TypeFor[fmt.Stringer]()
	formatterType = reflect.TypeFor[fmt.Formatter]()
)

// printer writes the beginning of a value that fmt cannot be trusted with.
type printer struct {
	b    strings.Builder
	left int
}

func (p *printer) print(v reflect.Value, depth int) {
	if p.left--; p.left < 0 || p.b.Len() > maxText {
		return
	}
	if depth > 20 {
		p.b.WriteString("…")
		return
	}
	if !v.IsValid() {
		p.b.WriteString("<nil>")
		return
	}
	if isText(v) {
		p.b.WriteString(sprint(v.Interface()))
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		p.print(v.Elem(), depth)
	case reflect.Pointer:
		if depth > 0 || v.IsNil() {
			fmt.Fprintf(&p.b, "%v", v)
			return
		}
		p.b.WriteString("&")
		p.print(v.Elem(), depth+1)
	case reflect.Struct:
		p.list("{", "}", v.NumField(), func(i int) { p.print(v.Field(i), depth+1) })
	case reflect.Array, reflect.Slice:
		p.list("[", "]", v.Len(), func(i int) { p.print(v.Index(i), depth+1) })
	case reflect.Map:
		it := v.MapRange()
		p.list("map[", "]", v.Len(), func(int) {
			it.Next()
			p.print(it.Key(), depth+1)
			p.b.WriteString(":")
			p.print(it.Value(), depth+1)
		})
	default:
		fmt.Fprintf(&p.b, "%v", v)
	}
}

func (p *printer) list(open, end string, n int, item func(i int)) {
	p.b.WriteString(open)
	for i := range n {
		if i > 0 {
			p.b.WriteByte(' ')
		}
		if p.left < 0 || p.b.Len() > maxText {
			p.b.WriteString("…")
			break
		}
		item(i)
	}
	p.b.WriteString(end)
}
