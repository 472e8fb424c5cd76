package compiled

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// during calls f when the worker has run the next cell for a moment.
func (h *harness) during(f func()) {
	go func() {
		for {
			time.Sleep(100 * time.Millisecond)
			h.mu.Lock()
			runs := h.running != nil && h.running.request != 0
			h.mu.Unlock()
			if runs {
				time.Sleep(100 * time.Millisecond)
				f()
				return
			}
		}
	}()
}

func TestInterruptKeepsState(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("import (\"sync\"; \"time\"; \"context\"; \"net\")\nx := 1\nfor i := range 3 { x += i }", "")
	for _, code := range []string{
		"for { x++ }",
		"select {}",
		"time.Sleep(time.Hour)",
		"<-make(chan int)",
		"func() { for { x++ } }()",
		"var mu sync.Mutex; mu.Lock(); mu.Lock()",
		"<-context.Background().Done()",
		"l, err := net.Listen(\"tcp\", \"127.0.0.1:0\"); if err == nil { l.Accept() }",
		"func fib(n int) int { if n < 2 { return n }; return fib(n-1) + fib(n-2) }\nfib(60)",
	} {
		h.during(h.Interrupt)
		o := h.cell(code)
		if o.err == nil || o.err.Name != "Interrupted" {
			t.Errorf("%s: %s", code, o.said())
		}
	}
	h.want("x > 4", "=true")
	h.Interrupt() // while idle
	h.want("1 + 1", "=2")
}

// A cell that has taken a context may have something to close, such as a profile on a server: it is not given up.
func TestInterruptedCellMayTidyUp(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("import (\"context\"; \"os/exec\")\nclosed := false", "")
	h.during(h.Interrupt)
	o := h.cell(`func() {
	defer func() { exec.Command("sleep", "1").Run(); closed = true }()
	ctx := context.Background()
	exec.CommandContext(ctx, "sleep", "60").Run()
}()`)
	if o.err == nil || o.err.Name != "Interrupted" {
		t.Errorf("the cell ended with %v", o.err)
	}
	h.want("closed", "=true")
}

// What calls itself by others, by an interface or by a variable polls like a loop: nothing of it lives on.
func TestInterruptEndsRecursionWithoutLoops(t *testing.T) {
	h := newHarness(t, Options{})
	for _, code := range []string{
		"func ping(n int) { pong(n) }\nfunc pong(n int) { if n > 0 { ping(n-1); ping(n-1) } }\nping(200)",
		"type Node interface{ Walk(n int) }\ntype Leaf struct{}\nfunc (Leaf) Walk(n int) { var x Node = Leaf{}; if n > 0 { x.Walk(n-1); x.Walk(n-1) } }\nLeaf{}.Walk(200)",
		"var walk func(int)\nwalk = func(n int) { if n > 0 { walk(n-1); walk(n-1) } }\nwalk(200)",
		"type List[T any] struct{}\nfunc (l List[T]) Len(n int) { if n > 0 { l.Len(n-1); l.Len(n-1) } }\nList[int]{}.Len(200)",
	} {
		h.during(h.Interrupt)
		o := h.cell(code)
		if o.err == nil || o.err.Name != "Interrupted" {
			t.Errorf("%s: %s", code, o.said())
		}
	}
}

func TestInterruptEndsABuild(t *testing.T) {
	h := newHarness(t, Options{})
	var b strings.Builder
	for i := range 3000 { // takes the compiler some seconds
		fmt.Fprintf(&b, "func f%d(a, b []map[string]any) (c map[string]any) { for _, x := range a { for _, y := range b { for k, v := range x { c[k] = append([]any{v, y[k]}, %d) } } }; return }\n", i, i)
	}
	time.AfterFunc(time.Second, h.Interrupt)
	o := h.cell(b.String())
	if o.err == nil || o.err.Name != "Interrupted" {
		t.Errorf("%.200s", o.said())
	}
	if timings, _ := o.Metadata["rooflab"].(timings); timings["run_ms"] != 0 {
		t.Error("the cell has run")
	}
	h.fails("f1(nil, nil)", "undefined: f1")
}

// A worker that is stopped cannot obey: a second interrupt kills it.
func TestSecondInterruptKillsAWorkerThatDoesNotEnd(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("kept := 5\nfunc twice(n int) int { return 2 * n }", "")
	pid := h.worker.cmd.Process.Pid
	h.during(func() {
		syscall.Kill(pid, syscall.SIGSTOP)
		h.Interrupt()
		h.Interrupt() // impatience is no second thought
		time.Sleep(2 * patience)
		h.Interrupt()
	})
	o := h.fails("for { kept++ }", "the worker process was killed because the cell did not end")
	if o.err.Name != "Interrupted" || !strings.Contains(o.said(), "kept") {
		t.Error(o.said())
	}
	if !strings.Contains(o.stderr(), "Interrupt again to kill the worker process") || !strings.Contains(o.stderr(), "kept") {
		t.Errorf("the user was told %q", o.stderr())
	}
	h.want("twice(3)", "=6")
	h.want("kept", "=0")
}

func TestDeathOfTheWorkerIsOneErrorAndDeclarationsStay(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("import (\"fmt\"; \"log\"; \"os/exec\"; \"sync\"; \"time\"; \"runtime/debug\")\n"+
		"type T struct{ n int }\nfunc (t T) N() int { return t.n }\nx := T{5}\nfunc mk(n int) T { return T{n} }", "")
	for _, c := range []struct{ code, said string }{
		{"log.Default().Fatal(\"bye\")", "the worker process ended: exit status 1 (a library called os.Exit or log.Fatal)"},
		{"var mu sync.Mutex\nmu.Unlock()", "the worker process ended: fatal error: sync: unlock of unlocked mutex (cell["},
		{"m := map[int]int{}\nfor range 8 { go func() { for i := range 1000000 { m[i%8] = i } }() }\ntime.Sleep(3 * time.Second)", "fatal error: concurrent map"},
		{"debug.SetMaxStack(1 << 20)\nfunc forever(n int) int { return forever(n+1) + 1 }\nforever(0)", "goroutine stack exceeds"},
		{"type W struct{}\nfunc (W) Write([]byte) (int, error) { panic(\"in a writer\") }\nc := exec.Command(\"echo\", \"x\")\nc.Stdout = W{}\nc.Run()", "panic: in a writer"},
	} {
		o := h.fails(c.code, c.said)
		if strings.Contains(o.stderr(), "goroutine ") {
			t.Errorf("%s: the crash report is shown: %s", c.code, o.stderr())
		}
		if o.err != nil && (o.err.Name != "WorkerDied" || !strings.Contains(o.said(), "Lost (now zero): ") || !strings.Contains(o.said(), "x")) {
			t.Errorf("%s: %s", c.code, o.said())
		}
		h.want("fmt.Println(mk(7).N(), x.N())", "7 0\n")
	}
	// also declarations that were moved to a new version of their type
	h.want("func (t *T) Set(n int) { t.n = n }", "")
	h.want("x.Set(3)", "")
	h.fails("log.Default().Fatal(\"bye\")", "WorkerDied")
	h.want("x.Set(4); fmt.Println(x.N())", "4\n")
}

func TestLogFatalEndsTheCellAndKeepsTheValues(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("import (\"errors\"; \"log\")\nkept := 5", "")
	for _, code := range []string{"log.Fatal(errors.New(\"bye\"))", "log.Fatalf(\"b%s\", \"ye\")", "log.Fatalln(\"bye\")"} {
		if o := h.fails(code, "exit status 1"); !strings.Contains(o.stderr(), "bye\n") {
			t.Errorf("%s printed %q", code, o.stderr())
		}
		h.want("kept", "=5")
	}
}

func TestWhatCellsPrintIsNotTakenForACrash(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("import (\"syscall\"; \"log\"; \"os\")\nlog.SetFlags(0)\nlog.Println(\"panic: old news\")", "panic: old news\n")
	h.fails("syscall.Exit(4)", "the worker process ended: exit status 4")
	h.fails("log.Println(\"fatal error: said by the user\")\nsyscall.Exit(1)", "the worker process ended: exit status 1")
}

func TestClosedStreamsComeBackForTheNextCell(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("import (\"fmt\"; \"os\"; \"syscall\")\nfmt.Println(\"a\"); os.Stdout.Close(); os.Stderr.Close()", "a\n")
	h.want("fmt.Println(\"b\"); println(\"c\")", "b\nc\n")
	h.want("syscall.Close(1)", "")
	h.want("fmt.Println(\"d\")", "d\n")
}

func TestDeathBetweenCellsIsTold(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("import (\"os\"; \"os/exec\")\nv := 7", "")
	syscall.Kill(h.worker.cmd.Process.Pid, syscall.SIGKILL)
	<-h.worker.dead
	o := h.cell("v")
	if o.err != nil || !strings.Contains(o.stderr(), "ended between two cells: signal: killed") || !strings.Contains(o.stderr(), "Lost (now zero): v.") {
		t.Errorf("%q %s", o.stderr(), o.said())
	}
	if text(o.Value) != "0" {
		t.Errorf("v is %s", text(o.Value))
	}
}

func TestReplayRunsTheCellsThatRan(t *testing.T) {
	for _, c := range []struct {
		name, again string
		options     Options
	}{
		{"asked for", "%restart replay", Options{}},
		{"by another name", "%replay", Options{}},
		{"automatic", "", Options{Replay: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, c.options)
			h.want("import \"log\"\nn := 40", "")
			h.fails("n = 1\npanic(1)", "panic")
			h.want("n = 41\nprintln(\"said once\")", "said once\n")
			h.want("n++\nfunc see() int { return n }", "")
			h.fails("log.Default().Fatal(1)", "WorkerDied")
			if c.again != "" {
				if o := h.cell(c.again); o.err != nil || !strings.Contains(o.stderr(), "Ran 3 cells again.") || strings.Contains(o.stderr(), "said once") {
					t.Errorf("%q %s", o.stderr(), o.said())
				}
			}
			if o := h.cell("see()"); o.err != nil || text(o.Value) != "42" {
				t.Errorf("%q %s", o.shown(), o.said())
			}
		})
	}
}

func TestReplayStopsAtTheFirstError(t *testing.T) {
	h := newHarness(t, Options{})
	dir := t.TempDir()
	h.want(fmt.Sprintf("import \"os\"\nif err := os.Mkdir(%q, 0o755); err != nil { panic(err) }", dir+"/once"), "")
	h.want("after := 1", "")
	h.fails("%restart replay", "cell[1] failed when it ran again (0 of 2 cells have run): mkdir")
	h.fails("after", "undefined: after")
}

func TestARestartThatFailsIsTriedAgain(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("a := 1", "")
	tool := h.options.Go
	h.options.Go = filepath.Join(t.TempDir(), "go")
	h.fails("%restart", "start again: ")
	h.fails("a", "start again: ")
	h.options.Go = tool
	h.fails("a", "undefined: a")
	h.want("b := 2\nb", "=2")
}

func TestAWorkerThatCannotBeHeardIsEnded(t *testing.T) {
	h := newHarness(t, Options{})
	h.fails("import \"syscall\"\nsyscall.Close(4)\nfor { }", "the worker process ended: signal: killed")
	h.want("1 + 1", "=2")
}

func TestRestartForgetsEverything(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("a := 1\nfunc f() int { return a }", "")
	h.want("%restart\nb := 2", "")
	h.fails("a", "undefined: a")
	h.want("b", "=2")
	h.fails("%restart now", "give nothing, or replay")
}

func TestOutputOfAGoroutineGoesToTheCellThatStartedIt(t *testing.T) {
	h := newHarness(t, Options{})
	first := h.cell("import (\"fmt\"; \"os\"; \"time\")\ngo func() { time.Sleep(300 * time.Millisecond); fmt.Println(\"late\"); fmt.Fprintln(os.Stderr, \"later\") }()")
	second := h.cell("fmt.Println(\"now\"); time.Sleep(700 * time.Millisecond); fmt.Println(\"then\")")
	if got := second.paper.String(); got != "now\nthen\n" {
		t.Errorf("second cell: %q", got)
	}
	if got := first.paper.String(); got != "late\nlater\n" {
		t.Errorf("first cell: %q", got)
	}
}

func TestTenMegabytesArriveWholeAndInOrder(t *testing.T) {
	h := newHarness(t, Options{})
	o := h.cell("import (\"fmt\"; \"os\"; \"strings\")\nline := strings.Repeat(\"é\", 49)\nfor i := range 100000 { fmt.Printf(\"%06d%s\\n\", i, line); if i%10000 == 9999 { fmt.Fprintln(os.Stderr, \"mark\", i) } }")
	var want strings.Builder
	for i := range 100000 {
		fmt.Fprintf(&want, "%06d%s\n", i, strings.Repeat("é", 49))
		if i%10000 == 9999 {
			fmt.Fprintln(&want, "mark", i)
		}
	}
	if got := o.paper.String(); got != want.String() {
		t.Errorf("%d bytes, want %d", len(got), want.Len())
	}
}

func TestNothingIsKeptOfACellThatDoesNotCompile(t *testing.T) {
	h := newHarness(t, Options{})
	h.fails("kept := 1\nkept + \"a\"", "CompileError")
	h.fails("kept", "undefined: kept")
}

func TestSilentCellsAndRepeatedNumbersDoNotClash(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("a := 1\nfunc f(i int) int { return []int{1}[i] }", "")
	for range 3 {
		h.count-- // as with store_history=false
		h.want("a++\na", fmt.Sprint("=", a(h)))
	}
	h.count--
	o := h.fails("\nf(2)", "index out of range")
	if !strings.Contains(o.said(), "cell[1]:2") {
		t.Errorf("the number beside the cell is 1: %s", o.said())
	}
}

// a counts the cells of the test above.
func a(h *harness) int { return len(h.log) + 1 }

func TestCellsWithCAndEmbeddedFiles(t *testing.T) {
	h := newHarness(t, Options{})
	if err := os.WriteFile(filepath.Join(h.options.Dir, "note.txt"), []byte("beside the notebook"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.want("/*\nstatic int twice(int n) { return 2 * n; }\n*/\nimport \"C\"\nfunc double(n int) int { return int(C.twice(C.int(n))) }\ndouble(4)", "=8")
	h.want("double(5)", "=10")
	h.want("import _ \"embed\"\n//go:embed note.txt\nvar note string\nnote", "=beside the notebook")
	h.fails("/*\n\nint broken( { }\n*/\nimport \"C\"\nC.broken(1)", "cell[4]:3")
}

func TestRooflabsPackagesCanBeImported(t *testing.T) {
	h := newHarness(t, Options{})
	// Linking takes long enough for the user to be told of it, on some machines.
	if o := h.cell("import \"github.com/rooflab/rooflab/data\"\nt := data.Table{Title: \"One\"}\nt.Title"); o.err != nil || !strings.HasSuffix(o.shown(), "=One") {
		t.Errorf("got %q %s", o.shown(), o.said())
	}
	h.fails("import \"example.com/none\"", "run %get example.com/none")
}
