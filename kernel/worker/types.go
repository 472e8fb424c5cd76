package main

import (
	"bytes"
	"debug/elf"
	"os"
	"sort"
	"strings"
	"unsafe"
)

// prefix marks names that the session exported; see session.Prefix.
const prefix = "𐲀"

// The runtime's type descriptors, as far as they are needed here (internal/abi, Go 1.26).
type abiType struct {
	size, ptrdata        uintptr
	hash                 uint32
	tflag, align, falign uint8
	kind                 uint8
	equal                func(unsafe.Pointer, unsafe.Pointer) bool
	gcdata               *byte
	str                  int32
	ptrToThis            int32
}

type abiStruct struct {
	abiType
	pkgPath unsafe.Pointer
	fields  []abiField
}

type abiField struct {
	name unsafe.Pointer
	_    *abiType
	_    uintptr // offset
}

const kindStruct = 25

//go:linkname resolveNameOff reflect.resolveNameOff
func resolveNameOff(ptrInModule unsafe.Pointer, off int32) unsafe.Pointer

//go:linkname typelinks reflect.typelinks
func typelinks() (sections []unsafe.Pointer, offsets [][]int32)

// sortTypelinks restores the order by type string, which reflection's searches (FuncOf, MapOf, ...) rely on. The
// newest module is the last one.
func sortTypelinks() {
	sections, offsets := typelinks()
	sec, off := sections[len(sections)-1], offsets[len(offsets)-1]
	str := func(o int32) string {
		t := (*abiType)(unsafe.Add(sec, int(o)))
		_, name, _ := readName(resolveNameOff(unsafe.Pointer(t), t.str))
		if t.tflag&2 != 0 { // the string has an extra star in front
			name = name[1:]
		}
		return name
	}
	sort.SliceStable(off, func(i, j int) bool { return str(off[i]) < str(off[j]) })
}

var (
	seenTypes  = map[string]bool{}
	fieldNames = map[string]*byte{} // new name records, kept alive here
	pkgRecord  = nameRecord(0, "main", "")
)

// nameRecord makes an abi.Name: flags, length, bytes, and a tag.
func nameRecord(flags byte, name, tag string) *byte {
	b := []byte{flags}
	b = append(varint(b, len(name)), name...)
	if tag != "" {
		b[0] |= 1 << 1
		b = append(varint(b, len(tag)), tag...)
	}
	return &b[0]
}

func varint(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func readVarint(p unsafe.Pointer, off int) (n, size int) {
	for i := 0; ; i++ {
		x := *(*byte)(unsafe.Add(p, off+i))
		n |= int(x&0x7f) << (7 * i)
		if x&0x80 == 0 {
			return n, i + 1
		}
	}
}

func readName(p unsafe.Pointer) (flags byte, name, tag string) {
	flags = *(*byte)(p)
	n, k := readVarint(p, 1)
	name = unsafe.String((*byte)(unsafe.Add(p, 1+k)), n)
	if flags&(1<<1) != 0 {
		off := 1 + k + n
		t, k := readVarint(p, off)
		tag = unsafe.String((*byte)(unsafe.Add(p, off+k)), t)
	}
	return
}

// fixTypes gives the types of a module the names that the user wrote. Struct fields get new, unexported name
// records, so that reflection, encoding/json and %+v treat them as what they are in the source. Methods stay exported (their names must be equal in all modules).
//
// A type that an earlier module has defined is skipped: the dynamic linker has bound all references to that one, and
// reading the copy would only make its pages resident.
func fixTypes(syms []elf.Symbol, base uintptr) {
	for _, s := range syms {
		if s.Section == elf.SHN_UNDEF || !strings.HasPrefix(s.Name, "type:") || strings.HasPrefix(s.Name, "type:.") {
			continue
		}
		if elf.ST_TYPE(s.Info) != elf.STT_OBJECT || s.Size < uint64(unsafe.Sizeof(abiType{})) {
			continue
		}
		if seenTypes[s.Name] {
			continue
		}
		seenTypes[s.Name] = true
		t := (*abiType)(at(base + uintptr(s.Value)))
		hideMethods(t)
		if t.kind&31 == kindStruct {
			fixFields((*abiStruct)(unsafe.Pointer(t)))
		}
	}
}

func fixFields(t *abiStruct) {
	for i := range t.fields {
		f := &t.fields[i]
		flags, name, tag := readName(f.name)
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		key := string(flags) + "\x00" + name + "\x00" + tag
		rec := fieldNames[key]
		if rec == nil {
			rec = nameRecord(flags&^(1<<0|1<<1|1<<2), name[len(prefix):], strings.Clone(tag))
			fieldNames[key] = rec
		}
		f.name = unsafe.Pointer(rec)
		if t.pkgPath == nil {
			t.pkgPath = unsafe.Pointer(pkgRecord)
		}
	}
}

// uncommonAt is where the method table's description lies behind a type of each kind (abi.Type.Uncommon).
var uncommonAt = map[uint8]uintptr{17: 72, 18: 64, 19: 56, 20: 80, 21: 112, 22: 56, 23: 56, 25: 80}

type abiUncommon struct {
	pkgPath        int32
	mcount, xcount uint16
	moff, _        uint32
}

// hideMethods takes the user's unexported methods out of what reflection counts as exported. They are the last
// ones, because of the prefix; the runtime's own search for methods uses mcount and still finds them.
func hideMethods(t *abiType) {
	if t.tflag&1 == 0 {
		return
	}
	at, ok := uncommonAt[t.kind&31]
	if !ok {
		at = unsafe.Sizeof(abiType{})
	}
	u := (*abiUncommon)(unsafe.Add(unsafe.Pointer(t), at))
	for u.xcount > 0 {
		m := (*[4]int32)(unsafe.Add(unsafe.Pointer(u), uintptr(u.moff)+16*uintptr(u.xcount-1)))
		if _, name, _ := readName(resolveNameOff(unsafe.Pointer(t), m[0])); !strings.HasPrefix(name, prefix) {
			break
		}
		u.xcount--
	}
}

// fixStrings rewrites the type strings in a cell's file before it is opened: the runtime compares them when it
// decides, while it is opened, which types of the new module are those of an earlier one.
func fixStrings(file *os.File, f *elf.File, data []byte, syms []elf.Symbol) (changed bool, err error) {
	for _, s := range syms {
		if s.Section == elf.SHN_UNDEF || s.Size < 8 || !strings.HasPrefix(s.Name, "type:.") {
			continue
		}
		off, ok := fileOffset(f, s.Value)
		if !ok {
			continue
		}
		rec := data[off : off+s.Size]
		if !bytes.Contains(rec, []byte(prefix)) {
			continue
		}
		n, k := readVarint(unsafe.Pointer(&rec[0]), 1)
		if rec[0] >= 16 || rec[0]&2 != 0 || 1+k+n > len(rec) {
			continue // not a name, or a field with a tag
		}
		name := string(rec[1+k : 1+k+n])
		if !strings.ContainsAny(name, ".{(* ") {
			continue // a field or method
		}
		short := cellPath.ReplaceAllString(strings.ReplaceAll(name, prefix, ""), "main.")
		b := append(varint([]byte{rec[0]}, len(short)), short...)
		if _, err := file.WriteAt(b, int64(off)); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}
