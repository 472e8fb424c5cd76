package link

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// stub makes the ELF file that stands for all that is loaded: `go tool link -linkshared` reads the symbols of a
// shared library from it. It holds only the symbols that are asked for, so that reading it costs nothing.
// A type is given as a value without structure that has the pointers of the real one; that is all that the linker
// looks at, for the pointer masks of variables.
func stub(note []byte, syms []symbol) []byte {
	le := binary.LittleEndian
	const addr = 1 << 32 // of the type data: the linker searches the pointer masks by address, and all other sections are at 0
	var str, sym, typ bytes.Buffer
	str.WriteByte(0)
	sym.Write(make([]byte, 24))
	for _, s := range syms {
		name := uint32(str.Len())
		str.WriteString(s.name)
		str.WriteByte(0)
		e := elf.Sym64{Name: name, Info: elf.ST_INFO(elf.STB_GLOBAL, s.kind), Shndx: uint16(elf.SHN_ABS), Size: s.size}
		if bytes.HasPrefix([]byte(s.name), []byte("type:")) && s.kind == elf.STT_OBJECT {
			e.Shndx, e.Value = 4, addr+uint64(typ.Len())
			d := make([]byte, max(s.size, 48))
			le.PutUint64(d, s.typSize)
			le.PutUint64(d[8:], s.ptrData)
			d[23] = 18 // chan
			le.PutUint64(d[32:], e.Value+uint64(len(d)))
			typ.Write(d)
			typ.Write(s.mask)
			typ.Write(make([]byte, 7&-len(s.mask)))
		}
		binary.Write(&sym, le, e)
	}
	names := "\x00.note\x00.dynsym\x00.dynstr\x00.data\x00.rela.dyn\x00.shstrtab\x00"
	name := func(s string) uint32 { return uint32(bytes.Index([]byte(names), []byte(s+"\x00"))) }
	sections := []struct {
		h elf.Section64
		d []byte
	}{
		{},
		{elf.Section64{Name: name(".note"), Type: uint32(elf.SHT_NOTE), Addralign: 4}, note},
		{elf.Section64{Name: name(".dynsym"), Type: uint32(elf.SHT_DYNSYM), Link: 3, Info: 1, Entsize: 24, Addralign: 8}, sym.Bytes()},
		{elf.Section64{Name: name(".dynstr"), Type: uint32(elf.SHT_STRTAB), Addralign: 1}, str.Bytes()},
		{elf.Section64{Name: name(".data"), Type: uint32(elf.SHT_PROGBITS), Addr: addr, Addralign: 8}, typ.Bytes()},
		{elf.Section64{Name: name(".rela.dyn"), Type: uint32(elf.SHT_RELA), Link: 2, Entsize: 24, Addralign: 8}, nil},
		{elf.Section64{Name: name(".shstrtab"), Type: uint32(elf.SHT_STRTAB), Addralign: 1}, []byte(names)},
	}
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shentsize: 64,
		Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1)}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	var body, table bytes.Buffer
	for _, s := range sections {
		body.Write(make([]byte, 7&-body.Len()))
		s.h.Off, s.h.Size = uint64(64+body.Len()), uint64(len(s.d))
		if s.h.Type == 0 {
			s.h.Off = 0
		}
		body.Write(s.d)
		binary.Write(&table, le, s.h)
	}
	body.Write(make([]byte, 7&-body.Len()))
	h.Shoff = uint64(64 + body.Len())
	var out bytes.Buffer
	binary.Write(&out, le, h)
	out.Write(body.Bytes())
	out.Write(table.Bytes())
	return out.Bytes()
}

// abiNote gives the notes of a linked library, which carry the hash by which the runtime knows it.
func abiNote(file string) ([]byte, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s := f.Section(".note.go.abihash"); s != nil {
		return s.Data()
	}
	var all []byte
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOTE {
			d, err := s.Data()
			if err != nil {
				return nil, err
			}
			all = append(all, d...)
		}
	}
	return all, nil
}
