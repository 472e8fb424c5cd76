package campaign

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A terminal that goes away stops what runs in it, as Ctrl-C does, but not what was started with nohup.
func TestInterruptible(t *testing.T) {
	if sig := os.Getenv("INTERRUPTIBLE_TEST"); sig != "" {
		ctx, stop := Interruptible(context.Background())
		defer stop()
		syscall.Kill(os.Getpid(), syscall.SIGHUP)
		if sig == "TERM" {
			time.Sleep(100 * time.Millisecond) // for a hang-up that should do nothing
			if ctx.Err() != nil {
				t.Fatal("nohup does not hold")
			}
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}
		<-ctx.Done()
		fmt.Println("tidied up")
		return
	}
	for before, sig := range map[string]string{"trap - HUP": "HUP", "trap '' HUP": "TERM"} {
		cmd := exec.Command("sh", "-c", before+`; exec "$0" -test.run='^TestInterruptible$' -test.timeout=1m`, os.Args[0])
		cmd.Env = append(os.Environ(), "INTERRUPTIBLE_TEST="+sig)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "tidied up") {
			t.Errorf("%s: %v\n%s", before, err, out)
		}
	}
}
