package nbclient

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/kernel/wire"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// collector turns iopub messages into the outputs of cells. What a goroutine prints after its cell has ended goes to
// that cell, by the parent of the message.
type collector struct {
	nb       *nbformat.Notebook
	requests map[string]*cellOutputs // by message id
	displays map[string][]*output    // by display_id
}

// cellOutputs are the outputs of one cell while it can still get some.
type cellOutputs struct {
	cell      *nbformat.Cell
	list      []*output
	clearNext bool // clear_output(wait): clear when the next output comes
	changed   bool
	times     map[string]string
}

type output struct {
	nbformat.Output
	text  []byte // of a stream, joined before it is decoded: a character may be cut between two messages
	owner *cellOutputs
}

func newCollector(nb *nbformat.Notebook) *collector {
	return &collector{nb: nb, requests: map[string]*cellOutputs{}, displays: map[string][]*output{}}
}

// begin announces that cell i runs as the given request.
func (c *collector) begin(i int, request string) *cellOutputs {
	own := &cellOutputs{cell: &c.nb.Cells[i], times: map[string]string{}}
	c.requests[request] = own
	return own
}

// content is the union of the contents of all messages that are looked at.
type content struct {
	Name           string              `json:"name"`
	Text           json.RawMessage     `json:"text"`
	Data           nbformat.MimeBundle `json:"data"`
	Metadata       nbformat.Metadata   `json:"metadata"`
	Transient      transient           `json:"transient"`
	ExecutionCount *int                `json:"execution_count"`
	ExecutionState string              `json:"execution_state"`
	Wait           bool                `json:"wait"`
	Ename          string              `json:"ename"`
	Evalue         string              `json:"evalue"`
	Traceback      []string            `json:"traceback"`
}

type transient struct {
	DisplayID string `json:"display_id"`
}

// take handles one message of iopub.
func (c *collector) take(m *wire.Message) {
	own := c.requests[m.Parent.MsgID]
	if own == nil {
		return // of a request that is none of a cell
	}
	var body content
	m.Decode(&body) // a field that does not fit stays empty, the others count
	switch m.Type() {
	case "stream":
		own.stream(body.Name, rawString(body.Text))
	case "display_data", "execute_result":
		o := own.add(nbformat.Output{Type: m.Type(), Data: bundle(body.Data), Metadata: metadata(body.Metadata)})
		if m.Type() == "execute_result" {
			o.ExecutionCount = body.ExecutionCount
		}
		if id := body.Transient.DisplayID; id != "" {
			c.displays[id] = append(c.displays[id], o)
		}
	case "update_display_data":
		for _, o := range c.displays[body.Transient.DisplayID] {
			o.Data, o.Metadata = bundle(body.Data), metadata(body.Metadata)
			o.owner.changed = true
		}
	case "clear_output":
		if own.clearNext = body.Wait; !body.Wait {
			own.list, own.changed = nil, true
		}
	case "error":
		own.add(nbformat.Output{Type: nbformat.Error, Ename: body.Ename, Evalue: body.Evalue, Traceback: body.Traceback})
	case "execute_input":
		own.count(body.ExecutionCount)
		own.times["iopub.execute_input"] = m.Header.Date
	case "status":
		own.times["iopub.status."+body.ExecutionState] = m.Header.Date
	}
}

// end completes the cell with what the reply says.
func (own *cellOutputs) end(reply executeReply, recordTimes bool) {
	own.count(reply.ExecutionCount)
	if reply.Status == "error" && !slices.ContainsFunc(own.list, func(o *output) bool { return o.Type == nbformat.Error }) {
		own.add(nbformat.Output{Type: nbformat.Error, Ename: reply.Ename, Evalue: reply.Evalue, Traceback: reply.Traceback})
	}
	if recordTimes {
		times := map[string]string{"shell.execute_reply": reply.date}
		for _, key := range []string{"iopub.execute_input", "iopub.status.busy", "iopub.status.idle"} {
			times[key] = own.times[key]
		}
		for key, at := range times {
			if at == "" {
				delete(times, key)
			}
		}
		own.cell.Metadata.Set("execution", times) // strings always encode
	}
}

// complete fills in what a kernel says on iopub but not in its reply.
func (own *cellOutputs) complete(reply executeReply) executeReply {
	for _, o := range own.list {
		if o.Type == nbformat.Error && len(reply.Traceback) == 0 {
			reply.Traceback = o.Traceback
		}
	}
	return reply
}

func (own *cellOutputs) count(n *int) {
	if n != nil {
		own.cell.ExecutionCount = n
	}
}

func (own *cellOutputs) stream(name string, text []byte) {
	if len(text) == 0 {
		return
	}
	if n := len(own.list); n > 0 && !own.clearNext && own.list[n-1].Type == nbformat.Stream && own.list[n-1].Name == name {
		own.list[n-1].text = append(own.list[n-1].text, text...)
		own.changed = true
		return
	}
	own.add(nbformat.Output{Type: nbformat.Stream, Name: name}).text = slices.Clone(text)
}

func (own *cellOutputs) add(o nbformat.Output) *output {
	if own.clearNext {
		own.list, own.clearNext = nil, false
	}
	added := &output{Output: o, owner: own}
	own.list = append(own.list, added)
	own.changed = true
	return added
}

// flush stores the outputs that changed in their cells.
func (c *collector) flush() {
	for _, own := range c.requests {
		if !own.changed {
			continue
		}
		own.changed = false
		own.cell.Outputs = make([]nbformat.Output, len(own.list))
		for i, o := range own.list {
			if o.Type == nbformat.Stream {
				o.Text = strings.ToValidUTF8(string(o.text), "\ufffd")
			}
			own.cell.Outputs[i] = o.Output
		}
	}
}

func bundle(b nbformat.MimeBundle) nbformat.MimeBundle {
	if b == nil {
		return nbformat.MimeBundle{}
	}
	return b
}

func metadata(m nbformat.Metadata) nbformat.Metadata {
	if m == nil {
		return nbformat.Metadata{}
	}
	return m
}
