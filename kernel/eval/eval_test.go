//lint:file-ignore SA4000 comparisons of a value with itself are among what is compared with compiled code

package eval_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/kernel/eval"
	"github.com/rooflab/rooflab/kernel/session"
)

// The cell and the Go code below declare the same; the test compares what the worker computes for an expression with
// what the compiler makes of it.
const declarations = `
import ("fmt"; "math"; "strconv"; "strings")
type celsius float64
func (c celsius) String() string { return fmt.Sprintf("%.1f°C", float64(c)) }
type day int8
func (d day) String() string { return "day " + strconv.Itoa(int(d)) }
func (d *day) Set(n int8) { *d = day(n) }
type name string
type flag bool
type point struct { X, y int; next *point }
func (p point) Sum() int { return p.X + p.y }
const monday day = 1
var (
	i, zero = 7, 0
	i8 int8 = -128
	u8 uint8 = 250
	i64 int64 = math.MinInt64
	u64 uint64 = math.MaxUint64
	f, g = 2.5, 0.1
	f32 float32 = 0.1
	huge = 1e300
	c celsius = 21.55
	d day = 3
	s = "héllo"
	nm name = "bob"
	yes, no = true, false
	fl flag = true
	p = point{1, 2, nil}
	pp = &p
	nilp *point
	list = []int{1, 2, 3, 4}
	arr = [3]string{"a", "b", "c"}
	m = map[string]int{"one": 1}
	nilm map[string]int
	days = map[day]string{1: "mon"}
	x any = 5
	err error
	st fmt.Stringer = d
	fn = func(n int) int { return n + i }
	nilfn func(int) int
	cx = complex(1, 2)
	bs = []byte("bytes")
	r = 'x'
)
func twice(n int) int { return 2 * n }
func div(a, b int) int { return a / b }
func pair(n int) (int, string) { return n, strings.Repeat("x", n) }
func bump() int { i++; return i }
func show(a ...any) string { return fmt.Sprintf("%T %v", a, a) }
func half(t celsius) celsius { return t / 2 }
`

type celsius float64

func (c celsius) String() string { return fmt.Sprintf("%.1f°C", float64(c)) }

type day int8

func (d day) String() string { return "day " + strconv.Itoa(int(d)) }
func (d *day) Set(n int8)    { *d = day(n) }

type name string
type flag bool
type point struct {
	X, y int
	next *point
}

func (p point) Sum() int { return p.X + p.y }

const monday day = 1

type world struct {
	i, zero int
	i8      int8
	u8      uint8
	i64     int64
	u64     uint64
	f, g    float64
	f32     float32
	huge    float64
	c       celsius
	d       day
	s       string
	nm      name
	yes, no bool
	fl      flag
	p       point
	pp      *point
	nilp    *point
	list    []int
	arr     [3]string
	m       map[string]int
	nilm    map[string]int
	days    map[day]string
	x       any
	err     error
	st      fmt.Stringer
	fn      func(int) int
	nilfn   func(int) int
	cx      complex128
	bs      []byte
	r       rune
	out     bytes.Buffer
}

func newWorld() *world {
	w := &world{i: 7, i8: -128, u8: 250, i64: math.MinInt64, u64: math.MaxUint64, f: 2.5, g: 0.1, f32: 0.1, huge: 1e300, c: 21.55, d: 3,
		s: "héllo", nm: "bob", yes: true, fl: true, p: point{1, 2, nil}, list: []int{1, 2, 3, 4}, arr: [3]string{"a", "b", "c"},
		m: map[string]int{"one": 1}, days: map[day]string{1: "mon"}, x: 5, cx: complex(1, 2), bs: []byte("bytes"), r: 'x'}
	w.pp, w.st = &w.p, w.d
	w.fn = func(n int) int { return n + w.i }
	return w
}

func (w *world) twice(n int) int          { return 2 * n }
func (w *world) div(a, b int) int         { return a / b }
func (w *world) pair(n int) (int, string) { return n, strings.Repeat("x", n) }
func (w *world) bump() int                { w.i++; return w.i }
func (w *world) show(a ...any) string     { return fmt.Sprintf("%T %v", a, a) }
func (w *world) half(t celsius) celsius   { return t / 2 }

// lookup finds variables and functions as the worker does.
func (w *world) lookup(_, name string) any {
	switch name {
	case "twice":
		return w.twice
	case "div":
		return w.div
	case "pair":
		return w.pair
	case "bump":
		return w.bump
	case "show":
		return w.show
	case "half":
		return w.half
	}
	f := reflect.ValueOf(w).Elem().FieldByName(name)
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Interface()
}

// try says what f computes, with types, or how it panics.
func try(f func() []any) (text string, panics bool) {
	defer func() {
		if r := recover(); r != nil {
			text, panics = fmt.Sprint("panic: ", r), true
		}
	}()
	for _, v := range f() {
		text += fmt.Sprintf("%T %#v %v;", v, v, v)
	}
	return text, false
}

func archive(path string) (io.ReadCloser, error) {
	out, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", path).Output()
	if err != nil {
		return nil, err
	}
	return os.Open(strings.TrimSpace(string(out)))
}

func newSession(t testing.TB) *session.Session {
	s := session.New(archive)
	u, err := s.Compile(1, declarations)
	if err != nil {
		t.Fatal(err)
	}
	u.Commit()
	return s
}

func v(x ...any) []any { return x }

// must are expressions that need no compiled code, unless they panic.
var must = []struct {
	text string
	want func(w *world) []any
}{
	{"1+1", func(w *world) []any { return v(1 + 1) }},
	{"'x'", func(w *world) []any { return v('x') }},
	{"2.5", func(w *world) []any { return v(2.5) }},
	{"1<<40", func(w *world) []any { return v(1 << 40) }},
	{"1.0", func(w *world) []any { return v(1.0) }},
	{"1/3.0", func(w *world) []any { return v(1 / 3.0) }},
	{"2i", func(w *world) []any { return v(2i) }},
	{"\"a\" + \"b\"", func(w *world) []any { return v("a" + "b") }},
	{"uint8(200)", func(w *world) []any { return v(uint8(200)) }},
	{"float32(0.1)", func(w *world) []any { return v(float32(0.1)) }},
	{"math.Pi", func(w *world) []any { return v(math.Pi) }},
	{"math.MaxInt64", func(w *world) []any { return v(math.MaxInt64) }},
	{"3 > 2", func(w *world) []any { return v(3 > 2) }},
	{"len(\"abc\")", func(w *world) []any { return v(len("abc")) }},
	{"i", func(w *world) []any { return v(w.i) }},
	{"i + 1", func(w *world) []any { return v(w.i + 1) }},
	{"i - 10*i", func(w *world) []any { return v(w.i - 10*w.i) }},
	{"i / 2", func(w *world) []any { return v(w.i / 2) }},
	{"-i / 2", func(w *world) []any { return v(-w.i / 2) }},
	{"-i % 4", func(w *world) []any { return v(-w.i % 4) }},
	{"i / zero", func(w *world) []any { return v(w.i / w.zero) }},
	{"i % zero", func(w *world) []any { return v(w.i % w.zero) }},
	{"f / float64(zero)", func(w *world) []any { return v(w.f / float64(w.zero)) }},
	{"i8 - 1", func(w *world) []any { return v(w.i8 - 1) }},
	{"-i8", func(w *world) []any { return v(-w.i8) }},
	{"i8 / -1", func(w *world) []any { return v(w.i8 / -1) }},
	{"i8 * i8", func(w *world) []any { return v(w.i8 * w.i8) }},
	{"u8 + 10", func(w *world) []any { return v(w.u8 + 10) }},
	{"u8 * u8", func(w *world) []any { return v(w.u8 * w.u8) }},
	{"-u8", func(w *world) []any { return v(-w.u8) }},
	{"^u8", func(w *world) []any { return v(^w.u8) }},
	{"^i8", func(w *world) []any { return v(^w.i8) }},
	{"i64 - 1", func(w *world) []any { return v(w.i64 - 1) }},
	{"i64 / -1", func(w *world) []any { return v(w.i64 / -1) }},
	{"u64 + 1", func(w *world) []any { return v(w.u64 + 1) }},
	{"u64 / 3", func(w *world) []any { return v(w.u64 / 3) }},
	{"i &^ 3 | 8 ^ 1", func(w *world) []any { return v(w.i&^3 | 8 ^ 1) }},
	{"i << 3", func(w *world) []any { return v(w.i << 3) }},
	{"i << u8", func(w *world) []any { return v(w.i << w.u8) }},
	{"i8 >> 1", func(w *world) []any { return v(w.i8 >> 1) }},
	{"i8 >> u8", func(w *world) []any { return v(w.i8 >> w.u8) }},
	{"u8 << 1", func(w *world) []any { return v(w.u8 << 1) }},
	{"u8 >> i", func(w *world) []any { return v(w.u8 >> w.i) }},
	{"i << -zero", func(w *world) []any { return v(w.i << -w.zero) }},
	{"i << (zero-1)", func(w *world) []any { return v(w.i << (w.zero - 1)) }},
	{"1 << i", func(w *world) []any { return v(1 << w.i) }},
	{"u64 << u8", func(w *world) []any { return v(w.u64 << w.u8) }},
	{"f + g", func(w *world) []any { return v(w.f + w.g) }},
	{"f32 * 3", func(w *world) []any { return v(w.f32 * 3) }},
	{"f32 / 3", func(w *world) []any { return v(w.f32 / 3) }},
	{"huge * huge", func(w *world) []any { return v(w.huge * w.huge) }},
	{"-f", func(w *world) []any { return v(-w.f) }},
	{"-(f - f)", func(w *world) []any { return v(-(w.f - w.f)) }},
	{"float64(i) / 2", func(w *world) []any { return v(float64(w.i) / 2) }},
	{"int(f)", func(w *world) []any { return v(int(w.f)) }},
	{"int(-f)", func(w *world) []any { return v(int(-w.f)) }},
	{"int8(i + 250)", func(w *world) []any { return v(int8(w.i + 250)) }},
	{"uint8(i8)", func(w *world) []any { return v(uint8(w.i8)) }},
	{"uint32(i64 + 5)", func(w *world) []any { return v(uint32(w.i64 + 5)) }},
	{"float32(g)", func(w *world) []any { return v(float32(w.g)) }},
	{"float64(f32)", func(w *world) []any { return v(float64(w.f32)) }},
	{"float64(u64)", func(w *world) []any { return v(float64(w.u64)) }},
	{"string(r)", func(w *world) []any { return v(string(w.r)) }},
	{"string(bs)", func(w *world) []any { return v(string(w.bs)) }},
	{"[]byte(s)", func(w *world) []any { return v([]byte(w.s)) }},
	{"[]rune(s)", func(w *world) []any { return v([]rune(w.s)) }},
	{"string(nm)", func(w *world) []any { return v(string(w.nm)) }},
	{"int(d)", func(w *world) []any { return v(int(w.d)) }},
	{"float64(c)", func(w *world) []any { return v(float64(w.c)) }},
	{"bool(fl)", func(w *world) []any { return v(bool(w.fl)) }},
	{"c", func(w *world) []any { return v(w.c) }},
	{"c + 1", func(w *world) []any { return v(w.c + 1) }},
	{"c / 3", func(w *world) []any { return v(w.c / 3) }},
	{"-c", func(w *world) []any { return v(-w.c) }},
	{"d * 50", func(w *world) []any { return v(w.d * 50) }},
	{"d + monday", func(w *world) []any { return v(w.d + monday) }},
	{"d == monday", func(w *world) []any { return v(w.d == monday) }},
	{"d << 6", func(w *world) []any { return v(w.d << 6) }},
	{"nm + \"!\"", func(w *world) []any { return v(w.nm + "!") }},
	{"s + s", func(w *world) []any { return v(w.s + w.s) }},
	{"s < \"z\"", func(w *world) []any { return v(w.s < "z") }},
	{"s[1]", func(w *world) []any { return v(w.s[1]) }},
	{"s[1:3]", func(w *world) []any { return v(w.s[1:3]) }},
	{"s[i:]", func(w *world) []any { return v(w.s[w.i:]) }},
	{"nm[:1]", func(w *world) []any { return v(w.nm[:1]) }},
	{"len(s)", func(w *world) []any { return v(len(w.s)) }},
	{"i > 5 && f < 3", func(w *world) []any { return v(w.i > 5 && w.f < 3) }},
	{"no && nilp.X > 0", func(w *world) []any { return v(w.no && w.nilp.X > 0) }},
	{"yes || nilp.X > 0", func(w *world) []any { return v(w.yes || w.nilp.X > 0) }},
	{"yes && nilp.X > 0", func(w *world) []any { return v(w.yes && w.nilp.X > 0) }},
	{"!yes", func(w *world) []any { return v(!w.yes) }},
	{"!fl", func(w *world) []any { return v(!w.fl) }},
	{"fl && !fl", func(w *world) []any { return v(w.fl && !w.fl) }},
	{"list", func(w *world) []any { return v(w.list) }},
	{"list[1:]", func(w *world) []any { return v(w.list[1:]) }},
	{"list[:0]", func(w *world) []any { return v(w.list[:0]) }},
	{"list[1:2:3]", func(w *world) []any { return v(w.list[1:2:3]) }},
	{"cap(list[1:2:3])", func(w *world) []any { return v(cap(w.list[1:2:3])) }},
	{"list[2:1+zero]", func(w *world) []any { return v(w.list[2 : 1+w.zero]) }},
	{"list[i]", func(w *world) []any { return v(w.list[w.i]) }},
	{"list[zero-1]", func(w *world) []any { return v(w.list[w.zero-1]) }},
	{"list[u64]", func(w *world) []any { return v(w.list[w.u64]) }},
	{"list[len(list)-1]", func(w *world) []any { return v(w.list[len(w.list)-1]) }},
	{"arr[2] + arr[0]", func(w *world) []any { return v(w.arr[2] + w.arr[0]) }},
	{"len(arr)", func(w *world) []any { return v(len(w.arr)) }},
	{"m[\"one\"]", func(w *world) []any { return v(w.m["one"]) }},
	{"m[\"two\"] + 1", func(w *world) []any { return v(w.m["two"] + 1) }},
	{"nilm[\"x\"]", func(w *world) []any { return v(w.nilm["x"]) }},
	{"len(nilm)", func(w *world) []any { return v(len(w.nilm)) }},
	{"days[monday]", func(w *world) []any { return v(w.days[monday]) }},
	{"days[1]", func(w *world) []any { return v(w.days[1]) }},
	{"p", func(w *world) []any { return v(w.p) }},
	{"p.y * 2", func(w *world) []any { return v(w.p.y * 2) }},
	{"pp.y", func(w *world) []any { return v(w.pp.y) }},
	{"(*pp).X", func(w *world) []any { return v((*w.pp).X) }},
	{"pp.next == nil", func(w *world) []any { return v(w.pp.next == nil) }},
	{"nilp == nil", func(w *world) []any { return v(w.nilp == nil) }},
	{"nil != pp", func(w *world) []any { return v(nil != w.pp) }},
	{"nilp.X", func(w *world) []any { return v(w.nilp.X) }},
	{"*nilp", func(w *world) []any { return v(*w.nilp) }},
	{"p == *pp", func(w *world) []any { return v(w.p == *w.pp) }},
	{"pp == nilp", func(w *world) []any { return v(w.pp == w.nilp) }},
	{"arr != arr", func(w *world) []any { return v(w.arr != w.arr) }},
	{"x", func(w *world) []any { return v(w.x) }},
	{"x == nil", func(w *world) []any { return v(w.x == nil) }},
	{"x == x", func(w *world) []any { return v(w.x == w.x) }},
	{"err", func(w *world) []any { return v(w.err) }},
	{"err == nil", func(w *world) []any { return v(w.err == nil) }},
	{"st", func(w *world) []any { return v(w.st) }},
	{"st.String()", func(w *world) []any { return v(w.st.String()) }},
	{"cx == cx", func(w *world) []any { return v(w.cx == w.cx) }},
	{"twice(4)", func(w *world) []any { return v(w.twice(4)) }},
	{"twice(twice(i))", func(w *world) []any { return v(w.twice(w.twice(w.i))) }},
	{"twice(i + 1)", func(w *world) []any { return v(w.twice(w.i + 1)) }},
	{"twice(3) + 1", func(w *world) []any { return v(w.twice(3) + 1) }},
	{"twice(3) > twice(2)", func(w *world) []any { return v(w.twice(3) > w.twice(2)) }},
	{"bump() - bump()", func(w *world) []any { return v(w.bump() - w.bump()) }},
	{"div(bump(), twice(1))", func(w *world) []any { return v(w.div(w.bump(), w.twice(1))) }},
	{"twice(7) / 3", func(w *world) []any { return v(w.twice(7) / 3) }},
	{"float64(twice(3)) / 4", func(w *world) []any { return v(float64(w.twice(3)) / 4) }},
	{"pair(2)", func(w *world) []any { a, b := w.pair(2); return v(a, b) }},
	{"half(c)", func(w *world) []any { return v(w.half(w.c)) }},
	{"half(3)", func(w *world) []any { return v(w.half(3)) }},
	{"show(1, d, c, nil, x, st, 'x', 2.5)", func(w *world) []any { return v(w.show(1, w.d, w.c, nil, w.x, w.st, 'x', 2.5)) }},
	{"show()", func(w *world) []any { return v(w.show()) }},
	{"fn(1)", func(w *world) []any { return v(w.fn(1)) }},
	{"nilfn(1)", func(w *world) []any { return v(w.nilfn(1)) }},
	{"p.Sum()", func(w *world) []any { return v(w.p.Sum()) }},
	{"pp.Sum()", func(w *world) []any { return v(w.pp.Sum()) }},
	{"d.String()", func(w *world) []any { return v(w.d.String()) }},
	{"len(show(1))", func(w *world) []any { return v(len(w.show(1))) }},
	{"strings.ToUpper(s)", func(w *world) []any { return v(strings.ToUpper(w.s)) }},
	{"fmt.Sprint(1, c, d, x)", func(w *world) []any { return v(fmt.Sprint(1, w.c, w.d, w.x)) }},
	{"fmt.Sprintf(\"%T %v %x\", d, c, s)", func(w *world) []any { return v(fmt.Sprintf("%T %v %x", w.d, w.c, w.s)) }},
	{"strconv.Atoi(s)", func(w *world) []any { a, b := strconv.Atoi(w.s); return v(a, b) }},
	{"math.Sqrt(f)", func(w *world) []any { return v(math.Sqrt(w.f)) }},
	{"fmt.Println(twice(2), 3)", func(w *world) []any { a, b := fmt.Fprintln(&w.out, w.twice(2), 3); return v(a, b) }},
	{"i = 3", func(w *world) []any { w.i = 3; return nil }},
	{"i = i * 2", func(w *world) []any { w.i = w.i * 2; return nil }},
	{"i += i", func(w *world) []any { w.i += w.i; return nil }},
	{"i++", func(w *world) []any { w.i++; return nil }},
	{"i8--", func(w *world) []any { w.i8--; return nil }},
	{"i <<= 2", func(w *world) []any { w.i <<= 2; return nil }},
	{"i /= zero", func(w *world) []any { w.i /= w.zero; return nil }},
	{"u8 += 10", func(w *world) []any { w.u8 += 10; return nil }},
	{"f -= 0.1", func(w *world) []any { w.f -= 0.1; return nil }},
	{"c = 3", func(w *world) []any { w.c = 3; return nil }},
	{"d = monday", func(w *world) []any { w.d = monday; return nil }},
	{"fl = i > 3", func(w *world) []any { w.fl = w.i > 3; return nil }},
	{"s += \"!\"", func(w *world) []any { w.s += "!"; return nil }},
	{"x = 5.5", func(w *world) []any { w.x = 5.5; return nil }},
	{"x = d", func(w *world) []any { w.x = w.d; return nil }},
	{"x = nil", func(w *world) []any { w.x = nil; return nil }},
	{"pp = nil", func(w *world) []any { w.pp = nil; return nil }},
	{"pp.y = 9", func(w *world) []any { w.pp.y = 9; return nil }},
	{"*pp = p", func(w *world) []any { *w.pp = w.p; return nil }},
	{"nilp.y = 9", func(w *world) []any { w.nilp.y = 9; return nil }},
	{"p.X++", func(w *world) []any { w.p.X++; return nil }},
	{"list[1] = list[2]", func(w *world) []any { w.list[1] = w.list[2]; return nil }},
	{"list[i] = 1", func(w *world) []any { w.list[w.i] = 1; return nil }},
	{"arr[0] = \"z\"", func(w *world) []any { w.arr[0] = "z"; return nil }},
	{"m[\"two\"] = 2", func(w *world) []any { w.m["two"] = 2; return nil }},
	{"m[\"one\"]++", func(w *world) []any { w.m["one"]++; return nil }},
	{"nilm[\"x\"] = 1", func(w *world) []any { w.nilm["x"] = 1; return nil }},
	{"days[d] = \"wed\"", func(w *world) []any { w.days[w.d] = "wed"; return nil }},
	{"list = list[:2]", func(w *world) []any { w.list = w.list[:2]; return nil }},
	{"i = twice(i)", func(w *world) []any { w.i = w.twice(w.i); return nil }},
	{"x = twice(i)", func(w *world) []any { w.x = w.twice(w.i); return nil }},
	{"err = nil", func(w *world) []any { w.err = nil; return nil }},
	{"st = c", func(w *world) []any { w.st = w.c; return nil }},
}

// state is all that an assignment could have changed.
func (w *world) state() string {
	return fmt.Sprintf("%v %v %v %v %v %v %v %v %v %v %v %v %v %v %T %v %v %v %T %v %v %q", w.i, w.i8, w.u8, w.f, w.c, w.d, w.s, w.fl, w.p, w.pp == nil,
		w.list, w.arr, w.m, w.days, w.x, w.x, w.nilp, w.nilm, w.st, w.st, w.err, w.out.String())
}

func TestWorkerComputesWhatTheCompilerDoes(t *testing.T) {
	s := newSession(t)
	for _, c := range must {
		u, err := s.Compile(2, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if u.Fast == nil {
			t.Errorf("%s: left to the compiler", c.text)
			continue
		}
		a, b := newWorld(), newWorld()
		want, panics := try(func() []any { return c.want(b) })
		run, ok := eval.Prepare(u.Fast, eval.World{Lookup: a.lookup, Stdout: &a.out})
		if before := newWorld().state(); a.state() != before {
			t.Errorf("%s: Prepare has changed something: %s, was %s", c.text, a.state(), before)
		}
		if panics {
			if ok {
				if got, same := try(run); !same || got != want {
					t.Errorf("%s: %s, want %s", c.text, got, want)
				}
			}
			continue
		}
		if !ok {
			t.Errorf("%s: cannot be evaluated, want %s", c.text, want)
			continue
		}
		if got, _ := try(run); got != want {
			t.Errorf("%s: %s, want %s", c.text, got, want)
		}
		if a.state() != b.state() {
			t.Errorf("%s: %s\nwant %s", c.text, a.state(), b.state())
		}
	}
}

// What the worker could get wrong is compiled.
func TestDoubtfulExpressionsAreCompiled(t *testing.T) {
	s := newSession(t)
	for _, text := range []string{
		"f*g + 1", "1 - -(f*g)", "cx * 2", "monday", "fmt.Println(monday)", "fmt.Sprint(monday)", "show(monday)", "x = monday", "celsius(3)",
		"i + bump()", "twice(2) / i", "twice(2) << i", "list[bump()]", "show(i, bump())", "fn(bump())", "strings.Repeat(s, twice(1))", "p.y = bump()", "i += bump()",
		"x == 5", "x.(int)", "&i", "func() int { return 1 }()", "j := 3", "i, zero = zero, i", "d.Set(bump2())", "min(i, 3)", "append(list, 1)",
		"yes && bump() > 1", "pair(2); i", "fmt.Println(pair(2))", "show(list...)", "[]byte(\"\\xff\")", "s + \"a\\xc3\"", "int(math.Sqrt(f))", "p.Sum() == bump()+i",
	} {
		if u, err := s.Compile(2, text); err == nil && u.Fast != nil {
			t.Errorf("%s is not compiled: %+v", text, *u.Fast)
		}
	}
}
