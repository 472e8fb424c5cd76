package link

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"sort"
	"strings"
)

// index lists what a linked file defines: the linker is told of these symbols and need not read the file.
// It is a text file sorted by name, a line for each symbol: name, NUL, ELF type, size, and for a type with
// pointers the size of its pointer part and its pointer mask.
type index struct {
	lines []byte
}

type symbol struct {
	name    string
	kind    elf.SymType
	size    uint64 // of the symbol
	typSize uint64 // of a value of the type
	ptrData uint64
	mask    []byte
}

// readIndex reads an index file.
func readIndex(file string) (*index, error) {
	d, err := os.ReadFile(file)
	return &index{lines: d}, err
}

// find looks a symbol up.
func (x *index) find(name string) (s symbol, ok bool) {
	lo, hi := 0, len(x.lines) // the line begins in [lo, hi)
	for lo < hi {
		mid := lo + (hi-lo)/2
		mid = lo + bytes.LastIndexByte(x.lines[lo:mid], '\n') + 1
		end := mid + bytes.IndexByte(x.lines[mid:], '\n')
		line := x.lines[mid:end]
		nul := bytes.IndexByte(line, 0)
		switch bytes.Compare(line[:nul], []byte(name)) {
		case -1:
			lo = end + 1
		case 1:
			hi = mid
		default:
			s.name = name
			var mask string
			fmt.Sscanf(string(line[nul+1:]), "%d %d %d %d %s", &s.kind, &s.size, &s.typSize, &s.ptrData, &mask)
			s.mask, _ = hex.DecodeString(mask)
			return s, true
		}
	}
	return s, false
}

// image gives access to a linked file as it would be in memory.
type image struct {
	f     *elf.File
	progs [][]byte
	syms  []elf.Symbol
	addr  map[uint64]uint64 // slot -> address within the file
	ext   map[uint64]string // slot -> symbol
	under []*Library        // the files that this one was linked against
	err   error             // of reading their indexes
}

// newIndex makes the index of a linked file, the offsets of its slots that refer to itabs.
func newIndex(file string, under []*Library) (x *index, itabs []uint64, err error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	m := &image{f: f, addr: map[uint64]uint64{}, ext: map[uint64]string{}, under: under}
	if m.syms, err = f.DynamicSymbols(); err != nil {
		return nil, nil, err
	}
	for _, p := range f.Progs {
		d := make([]byte, p.Filesz)
		if p.Type == elf.PT_LOAD {
			if _, err := p.ReadAt(d, 0); err != nil {
				return nil, nil, err
			}
		}
		m.progs = append(m.progs, d)
	}
	sec := f.Section(".rela.dyn")
	if sec == nil {
		return nil, nil, fmt.Errorf("%s has no relocations", file)
	}
	rel, err := sec.Data()
	if err != nil {
		return nil, nil, err
	}
	for ; len(rel) >= 24; rel = rel[24:] {
		off, info, add := binary.LittleEndian.Uint64(rel), binary.LittleEndian.Uint64(rel[8:]), binary.LittleEndian.Uint64(rel[16:])
		if info>>32 == 0 {
			m.addr[off] = add
			continue
		}
		s := m.syms[info>>32-1]
		m.ext[off] = s.Name
		if s.Section != elf.SHN_UNDEF {
			m.addr[off] = s.Value + add
		}
		if strings.HasPrefix(s.Name, "go:itab.") {
			itabs = append(itabs, off)
		}
	}
	var l []string
	for _, s := range m.syms {
		kind := elf.ST_TYPE(s.Info)
		if s.Section == elf.SHN_UNDEF || kind == elf.STT_NOTYPE || strings.HasPrefix(s.Name, "type:.") ||
			strings.HasPrefix(s.Name, "go:") && !strings.HasPrefix(s.Name, "go:builtin.") && s.Name != "go:link.abihash."+coreName || strings.ContainsAny(s.Name, "\x00\n") {
			continue
		}
		line := fmt.Sprintf("%s\x00%d %d", s.Name, kind, s.Size)
		if strings.HasPrefix(s.Name, "type:") && kind == elf.STT_OBJECT {
			if n := m.u64(s.Value + 8); n > 0 {
				bits := make([]byte, (n/8+7)/8)
				m.mark(bits, 0, s.Value)
				line += fmt.Sprintf(" %d %d %x", m.u64(s.Value), n, bits)
			}
		}
		l = append(l, line+"\n")
	}
	if m.err != nil {
		return nil, nil, m.err
	}
	sort.Strings(l)
	return &index{lines: []byte(strings.Join(l, ""))}, itabs, nil
}

func (m *image) at(addr uint64) []byte {
	for i, p := range m.f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr < p.Vaddr+p.Filesz {
			return m.progs[i][addr-p.Vaddr:]
		}
	}
	return make([]byte, 4096)
}

func (m *image) u64(addr uint64) uint64 { return binary.LittleEndian.Uint64(m.at(addr)) }

// The layout of type descriptors (internal/abi, Go 1.26).
const (
	tflagMaskOnDemand = 1 << 4
	kindArray         = 17
	kindStruct        = 25
)

// mark sets the bits of the pointers of the type at addr, which lies at byte off of the whole.
func (m *image) mark(bits []byte, off, addr uint64) {
	d := m.at(addr)
	ptr, tflag, kind := m.u64(addr+8), d[20], d[23]&31
	if ptr == 0 {
		return
	}
	switch {
	case tflag&tflagMaskOnDemand == 0:
		m.or(bits, off, ptr, m.at(m.addr[addr+32]))
	case kind == kindArray:
		m.markAt(bits, off, addr+48, m.u64(addr+64))
	case kind == kindStruct:
		fields := m.addr[addr+56]
		for i := range m.u64(addr + 64) {
			f := fields + 24*i
			m.markAt(bits, off+m.u64(f+16), f+8, 1)
		}
	}
}

// markAt marks n values of the type to which a slot refers.
func (m *image) markAt(bits []byte, off, slot, n uint64) {
	if addr, ok := m.addr[slot]; ok {
		for range n {
			m.mark(bits, off, addr)
			off += m.u64(addr)
		}
		return
	}
	for _, l := range m.under {
		x, err := l.symbols()
		if err != nil {
			m.err = err
			return
		}
		s, ok := x.find(m.ext[slot])
		if !ok {
			continue
		}
		for range n {
			m.or(bits, off, s.ptrData, s.mask)
			off += s.typSize
		}
		return
	}
}

func (m *image) or(bits []byte, off, ptr uint64, mask []byte) {
	for i := range ptr / 8 {
		if mask[i/8]>>(i%8)&1 != 0 {
			j := off/8 + i
			bits[j/8] |= 1 << (j % 8)
		}
	}
}

// mangle gives the name of a symbol in a linked file (cmd/link/internal/ld.typeSymbolMangle).
func mangle(name string) string {
	isType := strings.HasPrefix(name, "type:")
	if !isType && !strings.Contains(name, "@") || strings.HasPrefix(name, "type:runtime.") || strings.HasPrefix(name, "go:string.") ||
		len(name) <= 14 && !strings.Contains(name, "@") {
		return name
	}
	sum := func(s string) string {
		h := sha256.Sum256([]byte(s))
		h[0] ^= 0xff
		return base64.StdEncoding.EncodeToString(h[:6])
	}
	if isType {
		if name[5] == '.' {
			return "type:." + sum(name[5:])
		}
		return "type:" + sum(name[5:])
	}
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if j <= i {
		j = len(name)
	}
	return name[:i+1] + sum(name[i+1:j]) + name[j:]
}
