package kineto_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rooflab/rooflab/trace/kineto"
)

// oneLine makes a trace of kernels and Python frames on one line, as json.dumps writes it; names[i] replaces a name.
func oneLine(n int, names map[int]string) string {
	var b strings.Builder
	b.WriteString(`{"distributedInfo": {"rank": 0}, "traceEvents": [{"name": "process_name", "ph": "M", "args": {"name": "python"}}`)
	for i := range n {
		name, ok := names[i]
		if !ok {
			name = "frame"
		}
		if i%2 == 0 {
			fmt.Fprintf(&b, `, {"ph": "X", "cat": "python_function", "name": "%s", "pid": 1, "tid": 1, "ts": %d, "dur": 5, "args": {"Python id": %d, "x": {"y": [1]}}}`, name, i, i)
		} else {
			fmt.Fprintf(&b, `, {"ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": 7, "ts": %d, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": %d}}`, name, 10*i, i)
		}
	}
	b.WriteString(`], "traceName": "x"}`)
	return b.String()
}

// TestBareQuoteCostsItsOwnEventOnly: every other event of a file that is one line is read, whatever stands in a broken one.
func TestBareQuoteCostsItsOwnEventOnly(t *testing.T) {
	for _, c := range []struct {
		what  string
		names map[int]string
		lost  int // kernels
	}{
		{"none", nil, 0},
		{"one in a frame", map[int]string{10: `a " b`}, 0},
		{"one in a kernel", map[int]string{11: `a " b`}, 1},
		{"brackets after it", map[int]string{10: `a " {b} ]`}, 0},
		{"braces before it", map[int]string{10: `{a} { "`}, 0},
		{"two frames far apart", map[int]string{10: `a "`, 150: `" }`}, 0},
		{"two neighbours", map[int]string{10: `a "`, 12: `"} }, {`}, 0},
		{"a kernel whose name looks closed", map[int]string{11: `a"}}, {"b`}, 1},
		{"many", map[int]string{2: `"`, 4: `"}`, 7: `" }, {`, 8: `" {`, 60: `"`, 61: `"`, 198: `"`}, 2},
		{"the last one", map[int]string{199: `a " b`}, 1},
		{"an escaped begin of an event", map[int]string{10: `}, {\"ph\": \"X\" \u0041 }, {\"ph\"`}, 0},
	} {
		text := oneLine(200, c.names)
		r, err := kineto.Read(strings.NewReader(text), "rank0.json")
		if r == nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if len(r.Kernels) != 100-c.lost {
			t.Errorf("%s: %d kernels, want %d; %v", c.what, len(r.Kernels), 100-c.lost, r.Health)
		}
		told := false
		for _, d := range r.Health {
			told = told || d.Severity == "data_loss"
		}
		if told == json.Valid([]byte(text)) {
			t.Errorf("%s: health %v", c.what, r.Health)
		}
		if slow := dump(kineto.Read(iotest.OneByteReader(bytes.NewReader([]byte(text))), "rank0.json")); slow != dump(r, err) {
			t.Errorf("%s: read byte by byte, the trace is another one", c.what)
		}
		for _, size := range []int{1, 7, 333} {
			if slow := dump(kineto.ReadChunks(strings.NewReader(text), "rank0.json", size)); slow != dump(r, err) {
				t.Errorf("%s: in chunks of %d bytes, the trace is another one", c.what, size)
			}
		}
	}
}

func TestCallsWithoutTimesAreCounted(t *testing.T) {
	r, err := kineto.Read(strings.NewReader(`{"distributedInfo":{"rank":0},"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"step[DECODE bs=2]","pid":9,"tid":9,"dur":20},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":"never","dur":1,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":11,"dur":10,"args":{"device":0,"stream":7,"correlation":1}}]}`), "x.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Health {
		if d.ID == "call_without_time" && d.N == 2 {
			return
		}
	}
	t.Errorf("%v", r.Health)
}
