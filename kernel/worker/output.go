package main

import (
	"fmt"
	"log"
	"os"
	"reflect"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/rt"
)

// output puts marks between what goroutines print, so that the kernel can restore the order across the two pipes and
// knows whose output it is. The turn of the cell that runs stays open while only that cell prints to one stream:
// what children and the runtime print then is taken for its output too. All others close theirs at once.
var output marker

type marker struct {
	mu   sync.Mutex
	key  string // without it no marks are written
	turn int    // the last one
	open int    // the file in which that turn is open, or 0
	cell int    // whose turn it is
	buf  []byte
}

// maxAtomic is how much can be written to a pipe without that another process's output gets in between.
const maxAtomic = 4096

// stream is standard output or standard error of cells.
type stream struct{ fd int }

var stdout, stderr = stream{1}, stream{2}

func connectOutput() {
	output.key = os.Getenv(proto.KeyEnv)
	os.Unsetenv(proto.KeyEnv)
	for fd := range spare {
		if n, err := fcntl(fd, syscall.F_DUPFD_CLOEXEC, 3); err == nil {
			spare[fd] = n
		}
	}
	out, err := os.Stdout, os.Stderr
	rt.StreamFn = func(fd int) rt.Writer { // a cell that has assigned another file gets its way
		switch {
		case fd == 1 && os.Stdout != out:
			return os.Stdout
		case fd == 1:
			return stdout
		case os.Stderr != err:
			return os.Stderr
		}
		return stderr
	}
	log.SetOutput(stderr)
}

// spare are second descriptors of standard output and standard error, for when a cell has closed the first; 0: none.
var spare = map[int]int{1: 0, 2: 0}

// reopen gives a cell the standard streams that an earlier one has closed.
func reopen() {
	for fd, from := range spare {
		if _, err := fcntl(fd, syscall.F_GETFD, 0); err == syscall.EBADF && from > 0 {
			syscall.Dup3(from, fd, 0)
		}
	}
}

func fcntl(fd, command, arg int) (int, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), uintptr(command), uintptr(arg))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Write prints for the calling goroutine's cell.
func (s stream) Write(p []byte) (int, error) {
	if output.key == "" {
		return len(p), writeAll(s.fd, p)
	}
	x := current.Load()
	cell := owner()
	return len(p), output.write(s.fd, cell, p, x != nil && x.N == cell)
}

// WriteString spares a copy.
func (s stream) WriteString(p string) (int, error) {
	return s.Write(unsafe.Slice(unsafe.StringData(p), len(p)))
}

func (m *marker) write(fd, cell int, p []byte, keep bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buf = m.buf[:0]
	if m.open != fd || m.cell != cell {
		m.close(fd)
		m.turn++
		m.open, m.cell = fd, cell
		m.buf = proto.AppendTurn(m.buf, m.key, m.turn, cell)
	}
	if len(m.buf)+len(p) > maxAtomic {
		if err := writeAll(fd, m.buf); err != nil {
			return err
		}
		m.buf = m.buf[:0]
		if err := writeAll(fd, p); err != nil {
			return err
		}
	} else {
		m.buf = append(m.buf, p...)
	}
	if !keep {
		m.buf = proto.AppendEnd(m.buf, m.key, m.turn)
		m.open = 0
	}
	return writeAll(fd, m.buf)
}

// close ends the open turn before something else goes to fd. A turn in the same pipe is ended by the next one's mark.
func (m *marker) close(fd int) {
	if m.open != 0 && m.open != fd {
		writeAll(m.open, proto.AppendEnd(nil, m.key, m.turn)) // an error means that nobody reads there
	}
	m.open = 0
}

// event sends a message that takes its turn among the output.
func (m *marker) event(msg proto.FromWorker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.key != "" {
		m.close(0)
		m.turn++
		msg.Seq = m.turn
	}
	send(msg)
}

// done marks the end of the output of a request.
func (m *marker) done(id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.key == "" {
		return
	}
	m.close(0)
	b := proto.AppendDone(nil, m.key, id)
	writeAll(1, b)
	writeAll(2, b)
}

// writeAll writes to a file descriptor, which a child process may have made non-blocking.
func writeAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := syscall.Write(fd, p)
		p = p[max(n, 0):]
		switch err {
		case nil, syscall.EINTR:
		case syscall.EAGAIN:
			waitWritable(fd)
		default:
			return os.NewSyscallError("write", err)
		}
	}
	return nil
}

func waitWritable(fd int) {
	var set syscall.FdSet
	set.Bits[0] = 1 << fd
	syscall.Select(fd+1, nil, &set, nil, &syscall.Timeval{Usec: 20000})
}

// builtinPrint writes what the builtins print and println do.
func builtinPrint(ln bool, v []any) {
	var b []byte
	for i, x := range v {
		if ln && i > 0 {
			b = append(b, ' ')
		}
		b = appendPrinted(b, x)
	}
	if ln {
		b = append(b, '\n')
	}
	stderr.Write(b)
}

func appendPrinted(b []byte, x any) []byte {
	v := reflect.ValueOf(x)
	switch v.Kind() {
	case reflect.Invalid:
		return append(b, "(0x0,0x0)"...)
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.String:
		return append(b, v.String()...)
	case reflect.Float32, reflect.Float64:
		return strconv.AppendFloat(b, v.Float(), 'g', -1, v.Type().Bits())
	case reflect.Complex64, reflect.Complex128:
		return append(b, strconv.FormatComplex(v.Complex(), 'g', -1, v.Type().Bits())...)
	case reflect.Slice:
		return fmt.Appendf(b, "[%d/%d]%#x", v.Len(), v.Cap(), v.Pointer())
	case reflect.Pointer, reflect.Chan, reflect.Func, reflect.Map, reflect.UnsafePointer:
		return fmt.Appendf(b, "%#x", v.Pointer())
	}
	if v.CanInt() {
		return strconv.AppendInt(b, v.Int(), 10)
	}
	if v.CanUint() {
		return strconv.AppendUint(b, v.Uint(), 10)
	}
	return fmt.Appendf(b, "%v", x)
}
