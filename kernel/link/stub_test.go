package link

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"testing"
)

// The Go linker finds a type's pointer mask by address, in the first section that has it.
func TestMasksOfAStubAreFoundByAddress(t *testing.T) {
	var syms []symbol
	for i := range 1000 {
		syms = append(syms, symbol{name: fmt.Sprintf("type:p.T%d", i), kind: elf.STT_OBJECT, size: 64, typSize: 80, ptrData: 72, mask: []byte{byte(i), byte(i >> 8 & 1)}})
	}
	f, err := elf.NewFile(bytes.NewReader(stub(nil, syms)))
	if err != nil {
		t.Fatal(err)
	}
	found, err := f.DynamicSymbols()
	if err != nil || len(found) != len(syms) {
		t.Fatalf("%d symbols, %v", len(found), err)
	}
	read := func(addr uint64, n int) []byte {
		for _, s := range f.Sections[1:] {
			if s.Addr <= addr && addr < s.Addr+s.Size {
				b := make([]byte, n)
				if _, err := s.ReadAt(b, int64(addr-s.Addr)); err != nil {
					t.Fatal(err)
				}
				return b
			}
		}
		t.Fatalf("no section at %#x", addr)
		return nil
	}
	for i, s := range found {
		typ := read(s.Value, 48)
		if size, ptr := binary.LittleEndian.Uint64(typ), binary.LittleEndian.Uint64(typ[8:]); size != 80 || ptr != 72 {
			t.Fatalf("%s: size %d, pointers in %d", s.Name, size, ptr)
		}
		if mask := read(binary.LittleEndian.Uint64(typ[32:]), 2); !bytes.Equal(mask, syms[i].mask) {
			t.Fatalf("%s: mask %x, want %x", s.Name, mask, syms[i].mask)
		}
	}
}
