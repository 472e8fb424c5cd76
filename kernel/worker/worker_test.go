package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/proto"
)

func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOutputKeepsItsOrder(t *testing.T) {
	p := start(t)
	log := p.run(1, "fmt log os os/exec github.com/rooflab/rooflab/kernel/display", "", `
		for i := range 3 {
			fmt.Fprint(rt.Stdout(), "out", i, ";")
			fmt.Fprint(rt.Stderr(), "err", i, ";")
		}
		display.Display("shown")
		rt.Println("built in", 1, 2.5, true)
		log.SetFlags(0)
		log.Print("logged")
		fmt.Fprint(rt.Stdout(), "before;")
		cmd := exec.Command("echo", "child")
		cmd.Stdout = os.Stdout
		cmd.Run()
		os.Stdout.WriteString("raw;")
		fmt.Fprint(rt.Stdout(), "after")
		c.Show(42)`)
	equal(t, log, `stdout 1 "out0;"
stderr 1 "err0;"
stdout 1 "out1;"
stderr 1 "err1;"
stdout 1 "out2;"
stderr 1 "err2;"
display 1 map[text/plain:shown]
stderr 1 "built in 1 2.5 true\nlogged\n"
stdout 1 "before;child\nraw;after"
show 1 map[text/plain:42]`)
}

func TestLateOutputBelongsToItsCell(t *testing.T) {
	p := start(t)
	signal := strconv.Quote(filepath.Join(t.TempDir(), "signal"))
	p.run(1, "fmt context runtime/pprof os", "func wait() { for { if _, err := os.Stat("+signal+"); err == nil { return }; rt.Sleep(int64(1e7)) } }", `
		go func() {
			defer rt.Guard()
			wait()
			fmt.Fprint(rt.Stdout(), "late\n")
			panic("late panic")
		}()
		ctx := rt.Context().(context.Context)
		pprof.Do(ctx, pprof.Labels("user", "label"), func(ctx context.Context) {
			go func() { wait(); fmt.Fprint(rt.Stdout(), "labelled\n") }()
		})`)
	log := p.run(2, "fmt os", "", `
		fmt.Fprint(rt.Stdout(), "two\n")
		os.WriteFile(`+signal+`, nil, 0o644)
		rt.Sleep(int64(1e9))
		os.Stdout.WriteString("raw\n")`)
	byCell := map[string]string{}
	for _, l := range strings.Split(log, "\n") {
		stream, text, _ := strings.Cut(l, " \"")
		byCell[stream] += text
	}
	for stream, want := range map[string][]string{
		"stdout 1": {"late", "labelled"}, "stderr 1": {"panic in a goroutine of cell 1: late panic"}, "stdout 2": {"two", "raw"},
	} {
		for _, text := range want {
			if !strings.Contains(byCell[stream], text) {
				t.Errorf("%s lacks %q:\n%s", stream, text, log)
			}
		}
	}
}

func TestMuchOutputArrivesWhole(t *testing.T) {
	p := start(t)
	p.start(1, "bytes os fmt", "", `
		rt.Stdout().Write(bytes.Repeat([]byte("é世😀\n"), 1<<20))
		for i := range 100000 { fmt.Fprintf(rt.Stdout(), "%06d\n", i) }
		os.Stderr.Write(bytes.Repeat([]byte("y"), 5<<20))`)
	log, reply := p.wait()
	if reply == nil || reply.Err != nil {
		t.Fatalf("%+v", reply)
	}
	if n := strings.Count(log, `é世😀\n`); n != 1<<20 {
		t.Errorf("%d of %d lines of characters", n, 1<<20)
	}
	if n := strings.Count(log, `\n`); n != 1<<20+100000 {
		t.Errorf("%d ends of lines", n)
	}
	if n := strings.Count(log, "y"); n != 5<<20 {
		t.Errorf("%d bytes of raw output", n)
	}
}

func TestInterruptEndsWhateverRuns(t *testing.T) {
	p := start(t)
	const decls = "var kept = 1\nfunc even(n int) bool { rt.Poll(); return odd(n+1) || n == -2 }\nfunc odd(n int) bool { rt.Poll(); if n > 1000 { n = 0 }; return even(n+1) && n != -3 }\n" +
		"func spin(n int) int { for { rt.Poll(); n++ } }"
	for i, c := range []struct {
		name, imports, body string
		given               bool // given up
	}{
		{"loop", "", "for { rt.Poll() }", false},
		{"loop in a function", "", "spin(0)", false},
		{"sleep", "", "rt.Sleep(int64(1e18))", false},
		{"receive", "", "rt.Recv(make(chan int))", false},
		{"send", "", "rt.To(make(chan int)).Send(1)", false},
		{"select", "", "select { case <-rt.Stopped(): panic(rt.Halt()) }", false},
		{"range over a channel", "", "for { _, ok := rt.Recv2(make(chan int)); if !ok { break } }", false},
		{"context", "context", "<-rt.Context().(context.Context).Done()", false},
		{"recover", "", "func() { defer func() { recover() }(); for { rt.Poll() } }(); fmt.Fprint(rt.Stdout(), \"swallowed\")", false},
		{"other labels", "context runtime/pprof", "pprof.Do(rt.Context().(context.Context), pprof.Labels(\"a\", \"b\"), func(context.Context) { for { rt.Poll() } })", false},
		{"wait group", "sync", "var wg sync.WaitGroup; wg.Add(1); go func() { defer rt.Guard(); for { rt.Poll() } }(); wg.Wait()", true},
		{"accept", "net", "l, _ := net.Listen(\"tcp\", \"127.0.0.1:0\"); l.Accept()", true},
		{"standard input", "os", "os.Stdin.Read(make([]byte, 1)); c.Step(); fmt.Fprint(rt.Stdout(), \"went on\")", false},
		{"question", "github.com/rooflab/rooflab/kernel/display", "display.Input(\"?\")", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.t = t
			p.answer = func(proto.FromWorker) proto.ToWorker { time.Sleep(time.Second); return proto.ToWorker{} }
			log, e, took := p.interrupt(10+i, c.imports, decls, c.body)
			if e.Name != "Interrupted" || strings.Contains(e.Value, "still") != c.given {
				t.Errorf("error %+v", e)
			}
			if strings.Contains(log, "swallowed") || strings.Contains(log, "went on") {
				t.Error("the cell went on")
			}
			t.Logf("%v", took)
		})
	}
	p.t = t
	p.send(proto.ToWorker{Op: "stop"}) // nothing runs
	equal(t, p.run(99, "fmt", "", `fmt.Fprint(rt.Stdout(), "alive")`), `stdout 99 "alive"`)
}

func TestInterruptReachesGoroutinesAndNothingElse(t *testing.T) {
	p := start(t)
	p.run(1, "fmt", "", `
		stop := make(chan bool)
		Ticks = 0
		go func() {
			defer rt.Guard()
			for range 100 { rt.Poll(); rt.Sleep(int64(20e6)); Ticks++ }
			fmt.Fprint(rt.Stdout(), "first ended")
			close(stop)
		}()`+"\n}\nvar Ticks int\nfunc unused() {")
	log, e, _ := p.interrupt(2, "", "", `
		ch := make(chan int)
		for range 3 {
			go func() {
				defer rt.Guard()
				defer fmt.Fprint(rt.Stdout(), "cleaned up;")
				rt.Recv(ch)
			}()
		}
		defer func() { for i := range 3 { rt.Poll(); fmt.Fprint(rt.Stdout(), "defer ", i, ";") } }()
		for { rt.Poll() }`)
	if e.Name != "Interrupted" {
		t.Errorf("error %+v", e)
	}
	if strings.Count(log, "defer ") != 3 {
		t.Errorf("deferred functions were cut short:\n%s", log)
	}
	time.Sleep(300 * time.Millisecond)
	if n := strings.Count(p.logged(), "cleaned up;"); n != 3 {
		t.Errorf("%d of 3 goroutines of the cell have ended", n)
	}
	for range 100 {
		if strings.Contains(p.logged(), "first ended") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the goroutine of an earlier cell was ended, too")
}

func TestLateInterruptDoesNotEndTheNextCell(t *testing.T) {
	p := start(t)
	p.run(1, "", "", "")
	p.send(proto.ToWorker{Op: "stop", ID: p.id})
	p.run(2, "", "", "rt.Sleep(int64(50e6))")
}

func TestExitEndsTheCell(t *testing.T) {
	p := start(t)
	for body, want := range map[string]string{
		"rt.Exit(3)": "exit status 3",
		"rt.Exit(0)": "0",
		"go func() { defer rt.Guard(); rt.Exit(4) }(); rt.Recv(make(chan int))": "exit status 4",
	} {
		_, e := p.fail(1+p.id, "", "", body)
		if e.Name != "SystemExit" || e.Value != want {
			t.Errorf("%s: %+v", body, e)
		}
	}
	if _, e := p.fail(50, "runtime", "", "runtime.Goexit()"); e.Name != "Goexit" {
		t.Errorf("Goexit: %+v", e)
	}
}

func TestNamesInTextsAreTheUsers(t *testing.T) {
	p := start(t)
	decls := "type " + prefix + "thing struct{}\nfunc (t " + prefix + "thing) Boom() { panic(\"boom\") }\nfunc " + prefix + "deep() { var t " + prefix + "thing; t.Boom() }\n" +
		"type " + prefix + "able interface{ " + prefix + "act(); Boom() }\n"
	_, e := p.fail(1, "", decls, prefix+"deep()")
	equal(t, e.Value+"\n"+strings.Join(e.Trace, "\n"), "boom\ncell[1]:101 in thing.Boom\ncell[1]:102 in deep\ncell[1]:1 in the cell")
	_, e = p.fail(2, "", decls, "var x any = "+prefix+"thing{}; x.("+prefix+"able).Boom()")
	equal(t, e.Value, "interface conversion: main.thing is not main.able: missing method act")
	decls += "//go:noinline\nfunc call(b interface{ Boom() }) { b.Boom() }\n"
	_, e = p.fail(3, "", decls, "var x *"+prefix+"thing; call(x)")
	equal(t, e.Value, "value method main.thing.Boom called using nil *thing pointer")
	log := p.run(4, "fmt runtime runtime/debug strings", decls+"func "+prefix+"who() string { pc, _, _, _ := runtime.Caller(0); return runtime.FuncForPC(pc).Name() }",
		`fmt.Fprint(rt.Stdout(), `+prefix+`who(), " ", strings.Contains(string(debug.Stack()), "main.<cell>"), strings.Contains(string(debug.Stack()), "nb/"))`)
	equal(t, log, `stdout 4 "main.who true false"`)
	log = p.run(5, "fmt", decls, "func() { defer func() { fmt.Fprint(rt.Stdout(), rt.Filter(recover())) }(); var x any = "+prefix+"thing{}; x.("+prefix+"able).Boom() }()")
	equal(t, log, `stdout 5 "interface conversion: main.thing is not main.able: missing method act"`)
}
