package compiled

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rooflab/rooflab/kernel/serve"
)

// asProgram runs a program as such.
func asProgram(t *testing.T, program string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	if err != nil {
		t.Fatalf("run the program: %v\n%s", err, limited(string(out)))
	}
	return string(out)
}

// same runs a program as a cell, too, and compares what both print.
func (h *harness) same(t *testing.T, program string) {
	t.Helper()
	want := asProgram(t, program)
	h.count++
	o := h.run(serve.Cell{Count: h.count, Code: program})
	if o.err != nil {
		t.Fatalf("%s\n%s", o.said(), program)
	}
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(o.paper.String(), "\n")); d != "" {
		t.Errorf("program and cell differ (-program +cell):\n%s", d)
	}
}

// testdata/loops.go has the loops that a rewriting of loops could get wrong.
func TestLoopsDoWhatTheyDoInPrograms(t *testing.T) {
	program, err := os.ReadFile("testdata/loops.go")
	if err != nil {
		t.Fatal(err)
	}
	newHarness(t, Options{}).same(t, string(program))
}

// Functions of random loops give the same as cell and as program. ROOFLAB_LOOPS is how many programs of 100 functions;
// without it, one.
func TestRandomLoopsDoWhatTheyDoInPrograms(t *testing.T) {
	programs := 1
	if s := os.Getenv("ROOFLAB_LOOPS"); s != "" {
		var err error
		if programs, err = strconv.Atoi(s); err != nil {
			t.Fatalf("ROOFLAB_LOOPS: %v", err)
		}
	}
	h := newHarness(t, Options{})
	const functions = 100
	for seed := range programs {
		h.want("%restart", "")
		h.same(t, randomLoops(uint64(seed), functions))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d functions of random loops agree", programs*functions)
}

// A line of a loop is the same line in a trace, whatever the loop has become.
func TestTracesNameTheLinesOfLoops(t *testing.T) {
	h := newHarness(t, Options{})
	for _, loop := range []string{
		"for i := 0; i < n; i++ {\n\t\tsum +=\n\t\t\ts[i]\n\t}",
		"for i := 0; i <= n; i += step {\n\t\tsum +=\n\t\t\ts[i]\n\t}",
		"for x := 0; x >= 0; x, n = x+1, n {\n\t\tsum +=\n\t\t\ts[x]\n\t}",
		"for i := range n {\n\t\tsum +=\n\t\t\ts[i]\n\t}",
		"for i := range make([]int, n) {\n\t\tsum +=\n\t\t\ts[i]\n\t}",
	} {
		o := h.fails("func() {\n\ts, n, step, sum := make([]int, 3000), 5000, 1, 0\n\t"+loop+"\n\t_, _ = step, sum\n}()", "index out of range [3000] with length 3000")
		if want := fmt.Sprintf("cell[%d]:5", h.count); !strings.Contains(o.said(), want) {
			t.Errorf("%s\n%s\nwant %s", loop, o.said(), want)
		}
	}
}

func TestInterruptEndsLoopsWithoutCalls(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("x := 0\nzero := 0\nbig := make([]int, 1 << 20)", "")
	for _, loop := range []string{
		"for { }",
		"for x >= 0 { x = x & 7 }",
		"for i := 0; i < 10; { _ = i }",
		"for i := 0; i < 10; i += step { }",
		"for i := 10; i > 0; i -= step { }",
		"for i := uint32(0); i <= 1<<32-1; i++ { sum++ }",
		"for i := 1<<63 - 5; i <= 1<<63-1; i++ { sum++ }",
		"for i := 1<<63 - 5; i <= 1<<63-1; i += 1 { sum++ }",
		"for i := uint(9); i >= 0; i-- { sum++ }",
		"for i := int64(0); i < 1<<62; i++ { sum++ }",
		"for range 1 << 62 { sum++ }",
		"for a := range 1 << 20 { for b := range 1 << 20 { for c := range 1 << 20 { sum += a*b + c } } }",
		"for { for i := range big { sum += i } }",
		"for { for i := range 100 { sum += i } }",
	} {
		h.during(h.Interrupt)
		o := h.cell("func() {\n\tsum, step := 0, zero\n\t" + loop + "\n\t_, _ = sum, step\n}()")
		if o.err == nil || o.err.Name != "Interrupted" || o.stderr() != "" {
			t.Errorf("%s: %s%s", loop, o.said(), o.stderr())
		}
	}
}

// loopMaker writes functions of random loops.
type loopMaker struct {
	*rand.Rand
	strings.Builder
	depth  int
	labels int
	open   []string // labels of the loops around
	vars   []string // integer variables that may be read, all of type int
}

func randomLoops(seed uint64, functions int) string {
	m := &loopMaker{Rand: rand.New(rand.NewPCG(seed, 7))}
	m.WriteString("package main\n\nimport \"fmt\"\n\nconst most = 1500\n\nvar global = 1100\n\n")
	for i := range functions {
		m.vars = []string{"n", "k"}
		fmt.Fprintf(m, "func f%d(n, k int, s []int) (h uint64) {\n\tfuel := 30000\n\th = 17\n", i)
		for range 1 + m.IntN(2) {
			m.loop()
		}
		m.WriteString("\treturn h*7 + uint64(n) + uint64(k)\n}\n\n")
	}
	m.WriteString("func try(i int, f func(n, k int, s []int) uint64) {\n\ts := make([]int, 1300)\n\tdefer func() {\n\t\tsum := 0\n\t\tfor i, v := range s {\n\t\t\tsum = sum*3 + v + i\n\t\t}\n" +
		"\t\tfmt.Println(i, recover(), sum, global)\n\t\tglobal = 1100\n\t}()\n\tfmt.Println(i, f(1200, 3, s), f(-3, 0, s), f(70, 65, s[:70]), f(1<<63-1, 1<<63-1-90, nil))\n}\n\nfunc main() {\n")
	for i := range functions {
		fmt.Fprintf(m, "\ttry(%d, f%d)\n", i, i)
	}
	m.WriteString("}\n")
	return m.String()
}

func (m *loopMaker) one(of ...string) string { return of[m.IntN(len(of))] }

func (m *loopMaker) chance(percent int) bool { return m.IntN(100) < percent }

func (m *loopMaker) line(format string, args ...any) {
	m.WriteString(strings.Repeat("\t", m.depth+1))
	fmt.Fprintf(m, format+"\n", args...)
}

func (m *loopMaker) value() string {
	v := m.one(m.vars...)
	return m.one(v, v+"/2", v+" + 1", v+"&63", "3", "len(s)")
}

// loop writes a loop whose variable counts in one of many ways.
func (m *loopMaker) loop() {
	v := fmt.Sprintf("%s%d", m.one("i", "len", "min", "int", "j"), m.depth)
	if m.chance(30) { // hides a name of the universe, or a variable outside
		v = m.one("i", "min", "cap", "true", "string")
	}
	t := m.one("int", "int", "int", "int64", "uint64", "int32", "uint8", "float64")
	label := ""
	if m.chance(40) {
		m.labels++
		label = fmt.Sprintf("L%d", m.labels)
	}
	limit := m.one("n", "n", "k", "n - k", "len(s)", "1030", "64", "most", "global", "n / 2", "2049", "9")
	head, read := "", ""
	switch m.IntN(9) {
	case 0, 1, 2:
		typed := limit
		if t != "int" {
			typed = m.one("100", "120", t+"("+m.one("n&127", "k&63")+")")
		}
		start := m.one("0", "1", "7")
		head = fmt.Sprintf("for %s := %s(%s); %s %s %s; %s", v, t, start, v, m.one("<", "<="), typed, v) + m.one("++", "++", " += 1", " += 3")
		read = v
	case 3:
		if t == "uint8" || t == "float64" {
			t = "int"
		}
		head = fmt.Sprintf("for %s := %s(%s); %s %s %s; %s", v, t, m.one("n&2047", "1100", "64"), v, m.one(">", ">="), m.one("0", "5", "60"), v) + m.one("--", "--", " -= 2")
		read = v
	case 4:
		head = fmt.Sprintf("for %s := %s; %s %s n; %s += %s", v, m.one("k", "0", "k*k"), v, m.one("<", "<=", "!="), v, m.one("k", "k - 1", "k + 1", "2", "global"))
		t, read = "int", v
	case 5:
		head = fmt.Sprintf("for %s := range %s", v, m.one("n & 4095", "1024", "1500", "len(s)", "k & 127", "most"))
		t, read = "int", v
	case 6:
		head = m.one("for "+v+", _ := range s", "for "+v+" := range s", "for _, "+v+" := range s")
		t, read = "int", v
	case 7:
		head = m.one("for n > k", "for", "for range k & 2047", "for range s", "for ; n != 0; n /= 2", "for h != 5")
	case 8:
		head = fmt.Sprintf("for %s := 0; s[%s] >= 0; %s++", v, v, v)
		t, read = "int", v
	}
	if label != "" {
		m.line("%s:", label)
	}
	m.line("%s {", head)
	outerVars, outerOpen := m.vars, m.open
	m.depth++
	m.open = append(m.open[:len(m.open):len(m.open)], label)
	m.line("if fuel--; fuel < 0 {")
	m.line("\treturn h")
	m.line("}")
	if read != "" {
		m.line("h = h*31 + uint64(%s)", read)
		m.vars = slices.DeleteFunc(slices.Clone(m.vars), func(name string) bool { return name == read })
		if t == "int" {
			m.vars = append(m.vars, read)
		}
	}
	used := label == ""
	for range 1 + m.IntN(3) {
		used = m.statement(read, t, label) || used
	}
	if !used {
		m.line("if h%%1009 == 4 {")
		m.line("\t%s %s", m.one("break", "continue"), label)
		m.line("}")
	}
	m.depth--
	m.vars, m.open = outerVars, outerOpen
	m.line("}")
}

// statement writes something into the body of a loop; it tells whether the loop's label has been used.
func (m *loopMaker) statement(v, t, label string) bool {
	divisor := m.one("7", "101", "1009")
	switch m.IntN(11) {
	case 0:
		m.line("if h%%%s == 3 {", divisor)
		m.line("\t%s", m.one("break", "continue", "return h", "panic(\"stop\")"))
		m.line("}")
	case 1:
		m.line("switch h %% %s {", divisor)
		m.line("case 1:")
		m.line("\tbreak")
		m.line("case 2:")
		m.line("\tcontinue")
		m.line("case 3:")
		m.line("\tfallthrough")
		m.line("default:")
		m.line("\th ^= 5")
		m.line("}")
	case 2:
		to := m.one(m.open...)
		if to == "" {
			return false
		}
		m.line("if h%%%s < 2 {", divisor)
		m.line("\t%s %s", m.one("break", "continue"), to)
		m.line("}")
		return to == label
	case 3:
		m.line("s[%s] += %s", m.value(), m.value())
	case 4:
		m.line("if x := %s; x >= 0 && x < len(s) {", m.value())
		m.line("\th += uint64(s[x])")
		m.line("}")
	case 5:
		m.line("%s%s", m.one("n", "k", "global"), m.one("++", "--"))
	case 6:
		if v == "" || t == "float64" {
			return false
		}
		m.line("if h%%%s == 0 {", divisor)
		m.line("\t%s%s", v, m.one("++", " += 3", " ^= 1"))
		m.line("}")
	case 7:
		m.line("{ n := %s; n++; h += uint64(n) }", m.value())
	case 8:
		if m.chance(50) {
			m.line("h += uint64(%s / %s)", m.value(), m.one("k", "7", "n"))
		}
	default:
		if m.depth < 3 {
			m.loop()
		}
	}
	return false
}
