package main

import (
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/kernel/proto"
)

var cellPath = regexp.MustCompile(`nb/c[0-9]+\.`)

// clean gives a text of gc's tables the names that the user wrote.
func clean(s string) string {
	if !strings.Contains(s, prefix) && !strings.Contains(s, "nb/c") {
		return s
	}
	s = strings.ReplaceAll(s, prefix+prefix+"main.", "main.")
	return strings.ReplaceAll(cellPath.ReplaceAllString(s, "main."), prefix, "")
}

// cleanRecovered cleans the one text that the runtime makes from names of methods, which must be the same in all
// modules: that of a failed type assertion.
func cleanRecovered(r any) any {
	e, ok := r.(*runtime.TypeAssertionError)
	if !ok {
		return r
	}
	m := reflect.ValueOf(e).Elem().FieldByName("missingMethod")
	if m.IsValid() && m.Kind() == reflect.String && strings.HasPrefix(m.String(), prefix) {
		copied := *e
		f := reflect.ValueOf(&copied).Elem().FieldByName("missingMethod")
		reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem().SetString(clean(m.String()))
		return &copied
	}
	return r
}

func reportGoroutine(r any) {
	e := runError(r)
	fmt.Fprintf(stderr, "panic in a goroutine of cell %d: %s\n", owner(), e.Value)
	for _, l := range e.Trace {
		fmt.Fprintf(stderr, "\t%s\n", l)
	}
}

// runError describes a recovered value with the cell frames of the stack.
func runError(r any) *proto.RunError {
	e := &proto.RunError{Name: "panic", Value: clean(panicText(r))}
	pcs := make([]uintptr, 500)
	fr := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	repeated := 0
	for {
		f, more := fr.Next()
		if i := strings.LastIndex(f.File, "cell["); i >= 0 {
			l := fmt.Sprintf("%s:%d in %s", f.File[i:], f.Line, functionName(f.Function))
			if n := len(e.Trace); n > 0 && e.Trace[n-1] == l {
				repeated++
			} else {
				e.Trace = append(e.Trace, l)
			}
		}
		if !more || len(e.Trace) > 30 {
			break
		}
	}
	if repeated > 0 {
		e.Trace = append(e.Trace, fmt.Sprintf("(and %d frames of recursion)", repeated))
	}
	return e
}

// functionName is the name of a function without the package. The statements of a cell are "the cell".
func functionName(full string) string {
	name := functionText(full)
	if j := strings.LastIndexByte(name, '/'); j >= 0 {
		name = name[j+1:]
	}
	if _, rest, ok := strings.Cut(name, "."); ok {
		name = rest
	}
	return strings.Replace(name, "<cell>", "the cell", 1)
}

// panicText says what a panic value is, as the runtime would for a panic that ends a program.
func panicText(r any) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("%T", r)
		}
	}()
	switch x := r.(type) {
	case error:
		return x.Error()
	case fmt.Stringer:
		return x.String()
	case string:
		return x
	case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, uintptr:
		return fmt.Sprintf("%T(%v)", x, x)
	case float64:
		return "float64(" + strconv.FormatFloat(x, 'g', -1, 64) + ")"
	}
	text, _ := plain(r)
	return fmt.Sprintf("%T(%s)", r, text)
}
