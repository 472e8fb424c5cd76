package display

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Screen is what displays values. The kernel has one; without a kernel, values are printed.
type Screen interface {
	Display(id string, values []any)
	Update(id string, values []any)
	Clear(wait bool)
	Input(prompt string, password bool) (string, error)
	Render(v any) Data // without data if the value does not say how it is rendered
	Comm(m CommMessage) error
}

var connected Screen = printer{bufio.NewReader(os.Stdin)}

// Connect is for the kernel, which calls it before the first cell.
func Connect(s Screen) { connected = s }

func screen() Screen { return connected }

var (
	started = time.Now().UnixNano()
	ids     atomic.Int64
)

// newID is unique in a notebook: ids of an earlier process may still be in its outputs.
func newID() string {
	return "rooflab-" + strconv.FormatInt(started, 36) + "-" + strconv.FormatInt(ids.Add(1), 10)
}

// printer is the screen outside of a kernel.
type printer struct{ in *bufio.Reader }

func (printer) Display(_ string, values []any) {
	values = slices.Clone(values)
	for i, v := range values {
		if d, ok := v.(Data); ok {
			values[i] = d.Data[MIMETypeText]
		}
	}
	fmt.Println(values...)
}

func (p printer) Update(id string, values []any) { p.Display(id, values) }

func (printer) Clear(bool) {}

func (printer) Render(any) Data { return Data{} }

func (p printer) Input(prompt string, _ bool) (string, error) {
	fmt.Print(prompt)
	line, err := p.in.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}

func (printer) Comm(CommMessage) error { return ErrNoKernel }
