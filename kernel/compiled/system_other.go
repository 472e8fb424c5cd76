//go:build !linux

package compiled

import (
	"os"
	"syscall"
)

// Package build refuses other systems before a worker is started.

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(int) {}

func enlarge(*os.File) {}
