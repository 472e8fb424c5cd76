package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

// TestMain lets scripts run this test binary as the program: each command in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rooflab": func() {
		os.Exit(ExitCode(Run(os.Stdin, os.Stdout, os.Stderr, os.Args[1:])))
	}})
}

// Scripts find the recorded campaign in $ARCHIVE, a free address in $ADDR and its port in $PORT, and with the condition
// [kernel] the folder of the Go kernel in $KERNELS. Their own commands:
//
//	exits CODE rooflab ARG...   runs a command line, which must end with this exit code and, unless it is 0, one clear message
//	listening ADDR              waits until a server in the background accepts connections
func TestScripts(t *testing.T) {
	kernels := os.Getenv("ROOFLAB_KERNELS")
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			addr, err := freeAddr()
			env.Setenv("ARCHIVE", filepath.Join(sharedtest.Root(), "data", "campaigns", "h200x2-kimi-k2.5-int4"))
			env.Setenv("ADDR", addr)
			env.Setenv("PORT", addr[strings.LastIndex(addr, ":")+1:])
			env.Setenv("KERNELS", kernels)
			// Scripts have no home, but the kernel compiles cells with the modules and the caches of this machine.
			for _, name := range []string{"GOMODCACHE", "GOCACHE", "GOPATH"} {
				out, err := exec.Command("go", "env", name).Output()
				if err != nil {
					return err
				}
				env.Setenv(name, strings.TrimSpace(string(out)))
			}
			if cache, err := os.UserCacheDir(); err == nil {
				env.Setenv("XDG_CACHE_HOME", cache)
			}
			return err
		},
		Condition: func(cond string) (bool, error) {
			if cond != "kernel" {
				return false, fmt.Errorf("there is no condition %q", cond)
			}
			if kernels == "" && os.Getenv("CI") == "true" {
				return false, errors.New("ROOFLAB_KERNELS names no folder with the Go kernel; CI must have it (make unit sets it)")
			}
			return kernels != "", nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "listening": listening},
	})
}

// freeAddr is an address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
	if err := oneMessage(ts.ReadFile("stderr"), code == exitFailed || code == exitUsage); err != nil {
		ts.Fatalf("%v", err)
	}
}

// oneMessage checks what a command says on stderr: a failure is told once, without words of the program's insides.
func oneMessage(stderr string, failed bool) error {
	want := 0
	if failed {
		want = 1
	}
	if n := strings.Count("\n"+stderr, "\nrooflab: "); n != want {
		return fmt.Errorf("%d error messages, want %d", n, want)
	}
	for _, inside := range []string{"panic", "goroutine ", "runtime error", ".go:", "0xc0", "%!", "<nil>"} {
		if strings.Contains(stderr, inside) {
			return fmt.Errorf("the message holds %q", inside)
		}
	}
	_, message, _ := strings.Cut("\n"+stderr, "\nrooflab: ")
	said := map[string]bool{}
	for _, part := range strings.FieldsFunc(message, func(r rune) bool { return r == ';' || r == '\n' }) {
		for _, p := range strings.Split(part, ": ") {
			p = strings.TrimSpace(p)
			if len(p) > 8 && said[p] {
				return fmt.Errorf("the message says %q twice", p)
			}
			said[p] = true
		}
	}
	return nil
}

func listening(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listening ADDR")
	}
	var err error
	for range 600 { // with the pauses a minute, which only a server that never comes takes
		var c net.Conn
		if c, err = net.Dial("tcp", args[0]); err == nil {
			c.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("nobody listens: %v", err)
}
