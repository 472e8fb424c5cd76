package phases

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock keeps a second run out of a campaign's folder: two loads at once would spoil the figures of both. The system
// gives the lock back when the process ends, however it ends.
func lock(dir string) (unlock func(), err error) {
	name := filepath.Join(dir, ".journal", "lock")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK { // other errors: a file system without locks
		f.Close()
		return nil, fmt.Errorf("another run works in %s; wait for it, or give another folder", dir)
	}
	return func() { f.Close() }, nil
}
