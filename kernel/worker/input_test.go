package main

import (
	"strings"
	"testing"

	"github.com/rooflab/rooflab/kernel/proto"
)

func TestReadingAsksTheUser(t *testing.T) {
	p := start(t)
	lines := []string{"typed", "7 8", "for the child", "answer"}
	p.answer = func(m proto.FromWorker) proto.ToWorker {
		if len(lines) == 0 {
			return proto.ToWorker{Err: "no more lines"}
		}
		l := lines[0]
		lines = lines[1:]
		return proto.ToWorker{Text: l}
	}
	equal(t, p.run(1, "bufio fmt os", "", `fmt.Fprint(rt.Stdout(), "name? ")
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Fprintf(rt.Stdout(), "got %q %v", line, err)`), `stdout 1 "name? "
input 1 ""
stdout 1 "got \"typed\\n\" <nil>"`)
	equal(t, p.run(2, "fmt", "", `var a, b int
		n, err := fmt.Scan(&a, &b)
		fmt.Fprint(rt.Stdout(), n, err, a+b)`), `input 2 ""
stdout 2 "2 <nil> 15"`)
	equal(t, p.run(3, "os os/exec", "", `cmd := exec.Command("head", "-n", "1")
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		cmd.Run()`), `input 3 ""
stdout 3 "for the child\n"`)
	equal(t, p.run(4, "fmt github.com/rooflab/rooflab/kernel/display", "", `line, err := display.Input("q?")
		fmt.Fprintln(rt.Stdout(), line, err)`), `input 4 "q?"
stdout 4 "answer <nil>\n"`)
}

func TestReadingWithoutInputEnds(t *testing.T) {
	p := start(t)
	p.answer = func(proto.FromWorker) proto.ToWorker { return proto.ToWorker{Err: "this front end takes no input"} }
	log := p.run(1, "bufio fmt os", "", `line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Fprintf(rt.Stdout(), "got %q %v", line, err)`)
	equal(t, log, `input 1 ""
stderr 1 "standard input: this front end takes no input\n"
stdout 1 "got \"\" EOF"`)
	log = p.run(2, "fmt github.com/rooflab/rooflab/kernel/display", "", `_, err := display.Password("secret?")
		fmt.Fprint(rt.Stdout(), err)`)
	if !strings.HasSuffix(log, `stdout 2 "this front end takes no input"`) {
		t.Error(log)
	}
}

func TestRunawayMemoryEndsTheCellAlone(t *testing.T) {
	p := start(t, LimitEnv+"=400M")
	_, e := p.fail(1, "", "var kept [][]byte", `for { rt.Poll(); kept = append(kept, make([]byte, 1<<20)); rt.Sleep(int64(1e5)) }`)
	if e.Name != "OutOfMemory" || !strings.Contains(e.Value, "wanted more than 400 MiB") {
		t.Errorf("%+v", e)
	}
	equal(t, p.run(2, "fmt", "", `fmt.Fprint(rt.Stdout(), "alive")`), `stdout 2 "alive"`)
	p.send(proto.ToWorker{Op: "mem", ID: 77})
	m := <-p.replies
	if m.ID != 77 || m.Mem == nil || m.Mem.Heap < 300<<20 || m.Mem.RSS == 0 || m.Mem.Modules["nb/c2"] < 1<<10 || m.Mem.Limit != 400<<20 {
		t.Errorf("%+v %+v", m, m.Mem)
	}
}
