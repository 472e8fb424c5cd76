package main

import (
	"fmt"
	"time"

	"github.com/rooflab/rooflab/kernel/eval"
	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/rt"
)

// evaluate carries out a cell that is one simple expression, without compiled code for it. If that cannot be done, it
// says so ("slow") before anything has happened.
func evaluate(m proto.ToWorker) {
	reply := proto.FromWorker{Ev: "done", ID: m.ID}
	lookup := func(pkg, name string) any { return modules[pkg].table[name] }
	f, ok := eval.Prepare(m.Eval, eval.World{Lookup: lookup, Stdout: rt.Stdout()})
	if !ok {
		reply.Ev = "slow"
		finish(m, reply)
		return
	}
	t0 := time.Now()
	reply.Err = call(m, func(c *rt.Cell) {
		vals := f()
		if m.Eval.Show {
			rt.ShowFn(c, vals)
		}
	})
	reply.RunMS = ms(t0)
	if e := reply.Err; e != nil && len(e.Trace) > 0 { // the frame that compiled code would have
		e.Trace = append(e.Trace, fmt.Sprintf("cell[%d]:%d in the cell", m.Cell, m.Eval.Line))
	}
	finish(m, reply)
}
