// Package dl loads shared objects and finds symbols in all that are loaded. It knows nothing of Go in them.
package dl

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

static void *open_file(const char *file, unsigned long *base, char **err) {
	void *h = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
	struct link_map *m;
	if (h == 0 || dlinfo(h, RTLD_DI_LINKMAP, &m) != 0) {
		*err = dlerror();
		return 0;
	}
	*base = m->l_addr;
	return h;
}

static void *find_symbol(const char *name) { return dlsym(RTLD_DEFAULT, name); }
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Open loads a file and tells where it lies. All its references are bound before its code runs, so a file that cannot
// be loaded leaves nothing behind.
func Open(file string) (base uintptr, err error) {
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	var at C.ulong
	var msg *C.char
	if C.open_file(name, &at, &msg) == nil {
		return 0, errors.New(C.GoString(msg))
	}
	return uintptr(at), nil
}

// Symbol finds a symbol, or nil.
func Symbol(name string) unsafe.Pointer {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.find_symbol(c)
}
