package compiled

import (
	"os"
	"syscall"
)

// ownGroup starts a process in a group of its own. It ends with this one.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup ends a process that was started so, and what it has started.
func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }

// enlarge makes a pipe hold 1 MiB: fewer switches between the processes.
func enlarge(f *os.File) {
	const setPipeSize = 1031 // F_SETPIPE_SZ
	syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), setPipeSize, 1<<20)
}
