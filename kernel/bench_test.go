package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// The kernels that are measured beside each other, and what the same work looks like in their language.
var subjects = []subject{
	{
		name: "ipykernel", spec: "python3", setup: "import time",
		trivial: "v", define: func(i int) string { return fmt.Sprintf("v%d = %d\nprint(v%d)", i, i, i) },
		http:  func(i int) string { return fmt.Sprintf("import http.client\nh%d = http.client.HTTP_PORT", i) },
		print: "for i in range(10000): print('line', i)",
	},
	{name: "gophernotes", env: "ROOFLAB_GOPHERNOTES", spec: "rooflab-go", setup: `import "fmt"`, trivial: "v", define: goDefine, http: goHTTP, print: goPrint, sum: goSum, sieve: goSieve},
	{name: "compiled", env: "ROOFLAB_KERNELS", spec: "rooflab-go", setup: `import "fmt"`, trivial: "v", define: goDefine, http: goHTTP, print: goPrint, sum: goSum, sieve: goSieve},
}

type subject struct {
	name, spec, setup, trivial, print string
	env                               string // names the folder of kernelspecs; empty: that of $ROOFLAB_PYTHON
	define, http                      func(i int) string
	sum, sieve                        string // define functions sum and sieve
}

func goDefine(i int) string {
	return fmt.Sprintf("import \"fmt\"\nv%d := %d\nfmt.Println(v%d)", i, i, i)
}

func goHTTP(i int) string {
	return fmt.Sprintf("import \"net/http\"\nvar h%d = http.Client{}\nh%d.Timeout = %d", i, i, i)
}

const (
	goPrint = `for i := 0; i < 10000; i++ { fmt.Println("line", i) }`
	goSum   = `func sum(n int) int {
	s := 0
	for i := 0; i < n; i++ {
		s += i
	}
	return s
}`
	goSieve = `func sieve(n int) int {
	comp := make([]bool, n+1)
	count := 0
	for i := 2; i <= n; i++ {
		if !comp[i] {
			count++
			for j := i * i; j <= n; j += i {
				comp[j] = true
			}
		}
	}
	return count
}`
)

// BenchmarkKernels measures whole cells, from the request to the idle status, in each kernel. Figures with x_ in
// their unit are ratios to ipykernel in the same run, and for loops to a compiled Go program that takes turns with the
// cell: best to best, and median to median.
//
//	make bench-kernel
func BenchmarkKernels(b *testing.B) {
	if os.Getenv("ROOFLAB_KERNELS") == "" {
		b.Skip("ROOFLAB_KERNELS is not set; make bench-kernel sets it")
	}
	reference := map[string]time.Duration{} // what ipykernel takes
	for _, s := range subjects {
		spec, err := s.argv()
		if err != nil {
			b.Logf("%s is not measured: %v", s.name, err)
			continue
		}
		b.Run("start/"+s.name, func(b *testing.B) {
			for b.Loop() {
				k := startKernel(b, spec)
				k.run(s.setup)
				k.stop()
			}
			ratio(b, reference, "start", s.name)
		})
		k := startKernel(b, spec)
		k.run(s.setup)
		k.run(firstValue(s))
		cell := func(name string, code func(i int) string) {
			k.run(code(0)) // what it imports is warm
			n := 0
			b.Run(name+"/"+s.name, func(b *testing.B) {
				for b.Loop() {
					n++
					k.run(code(n))
				}
				ratio(b, reference, name, s.name)
			})
		}
		cell("value", func(int) string { return s.trivial })
		cell("fmt", func(i int) string { return s.define(100_000 + i) })
		cell("http", func(i int) string { return s.http(i) })
		cell("print-10000-lines", func(int) string { return s.print })
		b.Run("memory/"+s.name, func(b *testing.B) {
			before := k.memory()
			n := 0
			for b.Loop() {
				n++
				k.run(s.define(200_000 + n))
			}
			b.ReportMetric(float64(k.memory()-before)/float64(n)/1e6, "MB/cell")
		})
		for _, loop := range []struct{ name, define, call string }{{"sum-50M", s.sum, "sum(50000000)"}, {"sieve-5M", s.sieve, "sieve(5000000)"}} {
			if loop.define == "" {
				continue
			}
			k.run(loop.define)
			program := startProgram(b, loop.define, loop.call)
			k.run(loop.call)
			b.Run(loop.name+"/"+s.name, func(b *testing.B) {
				var cell, compiled []time.Duration
				for b.Loop() {
					t := time.Now()
					k.run(loop.call)
					cell = append(cell, time.Since(t))
					compiled = append(compiled, program())
				}
				slices.Sort(cell)
				slices.Sort(compiled)
				b.ReportMetric(float64(cell[0])/float64(compiled[0]), "x_compiled")
				b.ReportMetric(float64(cell[len(cell)/2])/float64(compiled[len(cell)/2]), "x_compiled_median")
			})
		}
		k.stop()
	}
}

func firstValue(s subject) string {
	if s.name == "ipykernel" {
		return "v = 1"
	}
	return "v := 1"
}

func ratio(b *testing.B, reference map[string]time.Duration, what, subject string) {
	each := b.Elapsed() / time.Duration(b.N)
	if subject == "ipykernel" {
		reference[what] = each
		return
	}
	if r := reference[what]; r > 0 {
		b.ReportMetric(float64(each)/float64(r), "x_ipykernel")
	}
}

// startProgram starts an ordinary program with the same function, and returns what makes it call the function once and
// tell how long that took. The machine's speed varies twofold in seconds, so cell and program take turns.
func startProgram(b *testing.B, define, call string) func() time.Duration {
	dir := b.TempDir()
	src := "package main\nimport (\"fmt\"; \"time\")\n" + define + "\nfunc main() {\n\tvar turn string\n\tfor {\n\t\tif _, err := fmt.Scanln(&turn); err != nil { return }\n" +
		"\t\tt := time.Now()\n\t\tsink = " + call + "\n\t\tfmt.Println(int64(time.Since(t)))\n\t}\n}\nvar sink int\n"
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte(src), 0o644); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, file).CombinedOutput(); err != nil {
		b.Fatalf("compile the same loop as a program: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	to, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		to.Close()
		cmd.Wait()
	})
	return func() time.Duration {
		var ns int64
		fmt.Fprintln(to, "go")
		if _, err := fmt.Fscanln(from, &ns); err != nil {
			b.Fatalf("run the same loop as a program: %v", err)
		}
		return time.Duration(ns)
	}
}

// argv is how the kernel is started.
func (s subject) argv() ([]string, error) {
	python := os.Getenv("ROOFLAB_PYTHON")
	dir := filepath.Join(filepath.Dir(filepath.Dir(python)), "share", "jupyter", "kernels")
	if s.env != "" {
		dir = os.Getenv(s.env)
	}
	text, err := os.ReadFile(filepath.Join(dir, s.spec, "kernel.json"))
	if err != nil {
		return nil, err
	}
	var spec struct{ Argv []string }
	if err := json.Unmarshal(text, &spec); err != nil || len(spec.Argv) == 0 {
		return nil, fmt.Errorf("%s: no program: %v", dir, err)
	}
	if spec.Argv[0] == "python" {
		spec.Argv[0] = python
	}
	return spec.Argv, nil
}

// running is a kernel process and a client of it.
type running struct {
	b      *testing.B
	cmd    *exec.Cmd
	client *wire.Client
}

func startKernel(b *testing.B, argv []string) *running {
	c, err := wire.NewConnection()
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "connection.json")
	if err := c.Write(file); err != nil {
		b.Fatal(err)
	}
	args := slices.Clone(argv)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{connection_file}", file)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		b.Fatalf("start %s: %v", args[0], err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	client, err := wire.Connect(ctx, c)
	if err != nil {
		b.Fatalf("connect to %s: %v", args[0], err)
	}
	k := &running{b: b, cmd: cmd, client: client}
	b.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return k
}

// run executes a cell and waits for its idle status and its reply.
func (k *running) run(code string) {
	ctx, cancel := context.WithTimeout(k.b.Context(), 2*time.Minute)
	defer cancel()
	m, err := k.client.Session.New("execute_request", map[string]any{"code": code, "silent": false, "store_history": true, "allow_stdin": false})
	if err == nil {
		err = k.client.Session.Send(k.client.Shell, m)
	}
	if err != nil {
		k.b.Fatal(err)
	}
	for idle := false; !idle; {
		out, err := k.client.Session.Recv(ctx, k.client.IOPub)
		if err != nil {
			k.b.Fatalf("%s: %v", code, err)
		}
		var status struct {
			State string `json:"execution_state"`
		}
		idle = out.Parent.MsgID == m.Header.MsgID && out.Type() == "status" && out.Decode(&status) == nil && status.State == "idle"
	}
	for {
		reply, err := k.client.Session.Recv(ctx, k.client.Shell)
		if err != nil {
			k.b.Fatalf("%s: %v", code, err)
		}
		if reply.Parent.MsgID != m.Header.MsgID {
			continue
		}
		var r struct{ Status, EName, EValue string }
		if err := reply.Decode(&r); err != nil || r.Status != "ok" {
			k.b.Fatalf("%s: %s: %s %s %v", code, r.Status, r.EName, r.EValue, err)
		}
		return
	}
}

func (k *running) stop() {
	if m, err := k.client.Session.New("shutdown_request", map[string]any{"restart": false}); err == nil {
		k.client.Session.Send(k.client.Control, m)
	}
	ended := make(chan struct{})
	go func() { k.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		syscall.Kill(-k.cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	k.client.Close()
}

// memory is the resident memory of the kernel's process and of all below it, in bytes.
func (k *running) memory() int64 { return residentBelow(k.cmd.Process.Pid) }

func residentBelow(pid int) int64 {
	var total int64
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			total = pages * int64(os.Getpagesize())
		}
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				total += residentBelow(n)
			}
		}
	}
	return total
}
