package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"strings"
)

// The head of the table of functions (runtime.pcHeader, Go 1.26): the magic number, and where the offsets of two
// neighbouring parts stand.
const (
	pclnMagic     = 0xfffffff1
	nameTabField  = 8 + 3*8 // funcnameOffset
	afterNamesTab = 8 + 4*8 // cuOffset
)

// cellFolder begins the package paths of cells.
const cellFolder = "nb/c"

// fixNames gives the functions in a cell's file the names that the user wrote, for stack traces of the runtime,
// runtime.FuncForPC, and profiles. All new names are shorter, and they are looked up by where they begin, so that the
// table can be changed in place.
func fixNames(file io.WriterAt, f *elf.File, data []byte) (changed bool, err error) {
	at, names, ok := nameTable(f, data)
	if !ok {
		return false, nil
	}
	for from := 0; ; {
		i := bytes.Index(names[from:], []byte(cellFolder))
		if i < 0 {
			break
		}
		begin := bytes.LastIndexByte(names[:from+i], 0) + 1
		n := bytes.IndexByte(names[begin:], 0)
		if n < 0 {
			break
		}
		old := names[begin : begin+n]
		if name := functionText(string(old)); len(name) < len(old) {
			if _, err := file.WriteAt(append([]byte(name), make([]byte, len(old)-len(name))...), at+int64(begin)); err != nil {
				return changed, err
			}
			changed = true
		}
		from = begin + n
	}
	return changed, nil
}

// functionText is the name of a function for users.
func functionText(name string) string {
	return clean(strings.ReplaceAll(name, prefix+prefix+"Run", "<cell>"))
}

// nameTable finds the names of functions in a file: NUL-terminated strings.
func nameTable(f *elf.File, data []byte) (at int64, names []byte, ok bool) {
	for _, s := range f.Sections {
		if !strings.HasSuffix(s.Name, ".gopclntab") || s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Size < 64 || s.Offset > uint64(len(data)) || s.Size > uint64(len(data))-s.Offset {
			return 0, nil, false
		}
		t := data[s.Offset : s.Offset+s.Size]
		if binary.LittleEndian.Uint32(t) != pclnMagic {
			return 0, nil, false
		}
		from, to := binary.LittleEndian.Uint64(t[nameTabField:]), binary.LittleEndian.Uint64(t[afterNamesTab:])
		if from > to || to > s.Size {
			return 0, nil, false
		}
		return int64(s.Offset + from), t[from:to], true
	}
	return 0, nil, false
}
