//go:build !cgo

package dl

import (
	"errors"
	"unsafe"
)

// Open needs cgo.
func Open(file string) (base uintptr, err error) {
	return 0, errors.New("load " + file + ": this program was built without cgo")
}

// Symbol needs cgo.
func Symbol(name string) unsafe.Pointer { return nil }
