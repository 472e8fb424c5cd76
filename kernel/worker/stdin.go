package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// stdin is standard input of cells: a pipe that is filled when somebody waits for it. A pipe does not tell that, but
// os.File locks itself while it reads, and children can be asked what they are doing.
var stdin feeder

type feeder struct {
	mu     sync.Mutex
	w      *os.File // the end that is filled
	asking bool
}

func connectStdin() {
	stdin.renew()
}

// renew puts a new pipe in the place of standard input. Whoever waits for the old one sees its end.
func (f *feeder) renew() {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(stderr, "standard input cannot be renewed:", err)
		return
	}
	err = syscall.Dup3(int(r.Fd()), 0, 0)
	r.Close()
	if err != nil {
		w.Close()
		fmt.Fprintln(stderr, "standard input cannot be renewed:", err)
		return
	}
	if f.w != nil {
		f.w.Close()
	}
	f.w = w
}

// attend asks the user for a line if the cell waits for one. Children are only looked at when that is wanted: it takes
// longer.
func (f *feeder) attend(x *execution, children bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking || !reading(os.Stdin) && !(children && childReads()) || pending() > 0 {
		return
	}
	f.asking = true
	go f.ask(x)
}

func (f *feeder) ask(x *execution) {
	m, ok := ask("", false, x.stop)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking = false
	switch {
	case !ok: // interrupted; stop has ended the read
	case m.Err != "":
		fmt.Fprintln(stderr, "standard input:", m.Err)
		f.renew()
	default:
		w := f.w
		go w.WriteString(strings.TrimSuffix(m.Text, "\n") + "\n") // more than the pipe holds waits for the reader
	}
}

// stop ends what waits for input.
func (f *feeder) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renew()
}

// drain forgets what a cell has not read.
func (f *feeder) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pending() > 0 {
		f.renew()
	}
}

// reading reports whether a goroutine is inside of f.Read: then the mutex of its descriptor says so.
func reading(f *os.File) bool {
	if f == nil {
		return false
	}
	const readLocked = 1 << 1 // internal/poll: mutexRLock
	v := reflect.ValueOf(f).Elem().FieldByName("file")
	if !v.IsValid() || v.IsNil() {
		return false
	}
	pfd := v.Elem().FieldByName("pfd")
	return pfd.FieldByName("Sysfd").Int() == 0 && pfd.FieldByName("fdmu").FieldByName("state").Uint()&readLocked != 0
}

// pending is how many bytes can be read at once.
func pending() (n int32) {
	syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return n
}

// childReads reports whether a program that a cell has started waits for our standard input.
func childReads() bool {
	mine, err := os.Readlink("/proc/self/fd/0")
	if err != nil {
		return false
	}
	for _, pid := range children() {
		call, err := os.ReadFile("/proc/" + pid + "/syscall")
		if err != nil || !strings.HasPrefix(string(call), readCall) {
			continue
		}
		if at, err := os.Readlink("/proc/" + pid + "/fd/0"); err == nil && at == mine {
			return true
		}
	}
	return false
}

// readCall begins the line of a process that reads from file 0.
var readCall = fmt.Sprintf("%d 0x0 ", syscall.SYS_READ)

func children() (pids []string) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		if b, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children"); err == nil {
			pids = append(pids, strings.Fields(string(b))...)
		}
	}
	return pids
}
