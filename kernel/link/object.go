package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// object is what a link needs to know about a package's archive.
type object struct {
	print   string            // fingerprint of its export data
	imports map[string]string // packages that it names, with their fingerprints
	refs    map[string]bool   // symbols that it refers to by name
	defs    []string          // symbols that it defines and others know by name
	methods []methodRef
	data    []byte // the archive
}

// methodRef is an entry of the method table of a type that refers to a function defined elsewhere.
type methodRef struct {
	at          int // of the reference, in the archive
	typ, method string
}

// The parts of a Go object file that are read here (cmd/internal/goobj; the magic number changes with the format).
const (
	objMagic   = "\x00go120ld"
	objBlocks  = len(objMagic) + 8 + 4 // magic, fingerprint, flags; then the offsets of the blocks
	importSize = 16                    // string, fingerprint
	symSize    = 21                    // string, ABI, type, two flags, size, alignment
	relocSize  = 23                    // offset, size, type, addend, package, symbol
	pkgNone    = 1<<31 - 1             // package of symbols that are referred to by name
	methodOff  = 26                    // cmd/internal/objabi.R_METHODOFF
)

const (
	blkAutolib = iota
	blkPkgIdx
	_
	blkSymDef
	_
	_
	blkNonPkgDef
	blkNonPkgRef
	blkRefFlags
	_
	_
	blkRelocIdx
	_
	_
	blkReloc
)

// readObject reads the Go objects of an archive.
func readObject(file string) (*object, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	const head = "!<arch>\n"
	if !bytes.HasPrefix(data, []byte(head)) {
		return nil, fmt.Errorf("%s is not an archive", file)
	}
	o := &object{refs: map[string]bool{}, imports: map[string]string{}, data: data}
	for at := len(head); at+60 <= len(data); {
		size, err := strconv.Atoi(strings.TrimSpace(string(data[at+48 : at+58])))
		if err != nil || at+60+size > len(data) {
			return nil, fmt.Errorf("read %s: bad archive", file)
		}
		body := data[at+60 : at+60+size]
		if i := bytes.Index(body, []byte("\n!\n"+objMagic)); bytes.HasPrefix(body, []byte("go object ")) && i >= 0 {
			if err := o.read(body[i+3:], at+60+i+3); err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
		}
		at += 60 + size + size&1
	}
	return o, nil
}

func (o *object) read(d []byte, base int) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("bad Go object")
		}
	}()
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(d[at:])) }
	str := func(at int) string { return string(d[u32(at+4) : u32(at+4)+u32(at)]) }
	block := func(i int) int { return u32(objBlocks + 4*i) }
	if p := string(d[len(objMagic):][:8]); p != "\x00\x00\x00\x00\x00\x00\x00\x00" { // assembly has none
		o.print = p
	}
	for at := block(blkAutolib); at < block(blkPkgIdx); at += importSize {
		o.imports[str(at)] = string(d[at+8 : at+importSize])
	}
	for at := block(blkNonPkgDef); at < block(blkNonPkgRef); at += symSize {
		o.defs = append(o.defs, str(at))
	}
	for at := block(blkNonPkgRef); at < block(blkRefFlags); at += symSize {
		o.refs[str(at)] = true
	}
	defs := (block(blkNonPkgRef) - block(blkNonPkgDef)) / symSize
	for i := 0; block(blkSymDef)+i*symSize < block(blkNonPkgRef); i++ {
		first, end := u32(block(blkRelocIdx)+4*i), u32(block(blkRelocIdx)+4*i+4)
		for at := block(blkReloc) + relocSize*first; at < block(blkReloc)+relocSize*end; at += relocSize {
			if binary.LittleEndian.Uint16(d[at+5:]) != methodOff || u32(at+15) != pkgNone || u32(at+19) < defs {
				continue
			}
			o.methods = append(o.methods, methodRef{at: base + at + 15,
				typ: str(block(blkSymDef) + symSize*i), method: str(block(blkNonPkgDef) + symSize*u32(at+19))})
		}
	}
	return nil
}

// basicType is a type that only package runtime defines (cmd/compile/internal/reflectdata.WriteBasicTypes)
// and to which method tables refer.
const basicType = "type:func(error) string"

// settle removes the references of method tables to methods that are in libraries loaded before: the linker cannot
// express them. The types concerned are instances of generic types, which every package that mentions them
// defines anew; the process uses the first definition, in one of these libraries, and never looks at this one.
func (o *object) settle(defined map[string]bool, under []*Library) (changed bool, err error) {
	for _, m := range o.methods {
		if defined[m.method] || m.method == basicType {
			continue
		}
		there, err := find(under, map[string]bool{m.typ: true}, nil)
		if err != nil {
			return changed, err
		}
		if len(there) > 0 {
			copy(o.data[m.at:], make([]byte, 8))
			changed = true
		}
	}
	return changed, nil
}
