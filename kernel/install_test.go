package kernel

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/kernel/wire"
)

// bundle is what a cell showed, with "stdout" and "error" beside the MIME types.
type bundle map[string]string

// cells are run in order in the real kernels. Each output named must contain the text; "" means there must be none.
// Errors of the compiler are in words of their own, in compiled for the compiled engine.
var cells = []struct {
	name, code string
	want       bundle
	compiled   string
}{
	{"imports and state", "import (\n\t\"context\"\n\t\"errors\"\n\t\"fmt\"\n\t\"math\"\n\t\"os\"\n\t\"sync/atomic\"\n\t\"time\"\n)\nn := 20", bundle{"error": ""}, ""},
	{"state of an earlier cell", "n + 1", bundle{"text/plain": "21"}, ""},
	{"printing is no result", "fmt.Println(n)", bundle{"stdout": "20\n", "text/plain": ""}, ""},
	{"standard library newer than the interpreter", "var c atomic.Int64\nc.Add(2)\nfmt.Sprint(errors.Join(errors.New(\"a\"), errors.New(\"b\")), c.Load(), uint64(math.MaxUint64))", bundle{"text/plain": "a\nb 2 18446744073709551615"}, ""},
	{"our records", "import \"github.com/rooflab/rooflab/data\"\nt := data.Table{Title: \"Two rows\", Columns: []data.Column{{Head: \"What\"}, {Head: \"n\", Numeric: true}}, Rows: []data.Row{{Cells: []string{\"a\", \"1\"}}}}\nt", bundle{"text/plain": "Two rows", "error": ""}, ""},
	{"by pointer", "&t", bundle{"text/plain": "Two rows"}, ""},
	{"a chart by value, from a call of two results", "import \"github.com/rooflab/rooflab/charts\"\n" +
		"func bars() charts.Bars { return charts.Bars{Figure: charts.Figure{Title: \"Two bars\"}, Unit: \"launches\", Rows: []charts.BarRow{{Label: \"eager\", Values: []charts.BarValue{{Value: 3}}}, {Label: \"graphs\", Values: []charts.BarValue{{Value: 1}}}}} }\n" +
		"bars().Chart()", bundle{"application/vnd.rooflab.chart+json": "Two bars", "text/html": "data:image/svg+xml;base64,", "image/svg+xml": "<svg", "text/plain": "Two bars"}, ""},
	{"a chart displayed", "chart, err := bars().Chart()\nDisplay(display.MIME(chart.SimpleRender(), nil))\nDisplay(display.Auto(&chart))", bundle{"text/html": "data:image/svg+xml;base64,", "error": ""}, ""},
	{"cell types show themselves", "type S struct{ n int }\nfunc (s S) String() string { return \"S!\" }\nS{1}", bundle{"text/plain": "S!"}, ""},
	{"cell types with JSON", "type J struct{ N int }\nfunc (j J) JSON() map[string]interface{} { return map[string]interface{}{\"n\": j.N} }\nJ{4}", bundle{"application/json": `{"n":4}`}, ""},
	{"a compile error has its line", "\nx := undefinedName", bundle{"error": "]:2:6: undefined identifier: undefinedName"}, "]:2:6: undefined: undefinedName"},
	{"a panic is the cell's error", "panic(\"boom\")", bundle{"error": "boom"}, ""},
	{"an unknown package is refused without a download", "import \"example.com/none\"", bundle{"error": "not in the kernel"}, "run %get example.com/none"},
	{"os.Exit ends the cell only", "os.Exit(3)", bundle{"error": "exit status 3"}, ""},
	{"the kernel lives", "n", bundle{"text/plain": "20"}, ""},
}

func TestInstalledKernelRunsCells(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the kernels, a minute or two the first time")
	}
	for _, engine := range []string{Gophernotes, Compiled} {
		t.Run(engine, func(t *testing.T) {
			o := Options{Engine: engine, Prefix: t.TempDir(), Source: sharedtest.Root(), Progress: t.Output()}
			if engine == Compiled {
				o.Program = buildRooflab(t)
			}
			runCells(t, o)
		})
	}
}

// buildRooflab makes the binary that users have. The test's own must not be installed: started as a kernel, it would
// run the tests.
func buildRooflab(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "rooflab")
	if _, err := goOutput(t.Context(), sharedtest.Root(), "build", "-o", program, "."); err != nil {
		t.Fatal(err)
	}
	return program
}

func runCells(t *testing.T, o Options) {
	spec, err := Install(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// Jupyter finds all that it starts in the kernelspec.
	if program := spec.Argv[0]; filepath.Dir(program) != spec.Dir || !strings.HasPrefix(program, o.Prefix) || spec.Engine != o.Engine {
		t.Errorf("the program is not in the folder of the kernelspec %+v", spec)
	}
	for _, logo := range []string{"logo-svg.svg", "logo-64x64.png"} {
		if _, err := os.Stat(filepath.Join(spec.Dir, logo)); err != nil {
			t.Error(err)
		}
	}
	for _, r := range Doctor(t.Context(), o) {
		if r.Broken() {
			t.Errorf("doctor: %s: %s", r.Check, r.Text)
		}
	}

	k := start(t, spec.Argv)
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			got := k.run(t, c.code)
			for mime, want := range c.want {
				if o.Engine == Compiled && c.compiled != "" {
					want = c.compiled
				}
				if want == "" && got[mime] != "" || !strings.Contains(got[mime], want) {
					t.Errorf("%s is %.300q, want %q", mime, got[mime], want)
				}
			}
		})
	}
	t.Run("an interrupt ends a loop and a sleep", func(t *testing.T) {
		for _, code := range []string{"for { n++ }", "time.Sleep(time.Hour)", "<-context.Background().Done(); for {}"} {
			time.AfterFunc(300*time.Millisecond, func() { k.request(t, k.Control, "interrupt_request", struct{}{}) })
			if got := k.run(t, code); !strings.Contains(got["error"], "interrupted") {
				t.Errorf("%s: %q", code, got)
			}
		}
		if got := k.run(t, "1 + 1"); got["text/plain"] != "2" {
			t.Errorf("after the interrupts: %q", got)
		}
	})
}

// running is a started kernel with a client.
type running struct {
	*wire.Client
	ctx context.Context
}

func start(t *testing.T, argv []string) *running {
	t.Helper()
	c, err := wire.NewConnection()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "connection.json")
	if err := c.Write(file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	args := slices.Clone(argv)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "{connection_file}", file)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client, err := wire.Connect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	k := &running{client, ctx}
	t.Cleanup(func() {
		k.request(t, k.Control, "shutdown_request", map[string]bool{"restart": false})
		if err := cmd.Wait(); err != nil {
			t.Errorf("the kernel ended badly: %v", err)
		}
		client.Close()
		cancel()
	})
	for { // a subscription takes effect a little later than it is made
		k.request(t, k.Shell, "kernel_info_request", struct{}{})
		if _, err := k.Session.Recv(ctx, k.Shell); err != nil {
			t.Fatal(err)
		}
		short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		_, err := k.Session.Recv(short, k.IOPub)
		stop()
		if err == nil {
			return k
		}
		if ctx.Err() != nil {
			t.Fatal("the kernel publishes nothing")
		}
	}
}

func (k *running) request(t *testing.T, to *wire.Socket, msgType string, content any) string {
	m, err := k.Session.New(msgType, content)
	if err == nil {
		err = k.Session.Send(to, m)
	}
	if err != nil {
		t.Error(err)
		return ""
	}
	return m.Header.MsgID
}

func (k *running) run(t *testing.T, code string) bundle {
	t.Helper()
	id := k.request(t, k.Shell, "execute_request", map[string]any{"code": code, "stop_on_error": false})
	shown := bundle{}
	for {
		m, err := k.Session.Recv(k.ctx, k.IOPub)
		if err != nil {
			t.Fatalf("%s: %v; so far %q", code, err, shown)
		}
		if m.Parent.MsgID != id {
			continue
		}
		var c struct {
			State  string                     `json:"execution_state"`
			Name   string                     `json:"name"`
			Text   string                     `json:"text"`
			Evalue string                     `json:"evalue"`
			Data   map[string]json.RawMessage `json:"data"`
		}
		if err := m.Decode(&c); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Type() == "stream":
			shown[c.Name] += c.Text
		case m.Type() == "error":
			shown["error"] += c.Evalue
		case c.State == "idle":
			return shown
		}
		for mime, raw := range c.Data {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw)
			}
			shown[mime] += text
		}
	}
}
