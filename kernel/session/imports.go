package session

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// imports resolves the import chunks of a cell. Blank are the paths that are imported for their effects.
func (s *Session) imports(chunks []*chunk) (names map[string]entry, blank []string, err error) {
	names = map[string]entry{}
	var faults ErrorList
	for _, k := range chunks {
		if k.kind != kImport {
			continue
		}
		fset := token.NewFileSet()
		f, shift, err := k.parse(fset, parser.ImportsOnly)
		if err != nil {
			return nil, nil, err
		}
		for _, sp := range f.Imports {
			path, _ := strconv.Unquote(sp.Path.Value)
			if path == "C" {
				names["C"] = entry{importPath: "C"}
				continue
			}
			off := fset.PositionFor(sp.Path.Pos(), false).Offset - shift
			if msg := noPath(path); msg != "" {
				faults = append(faults, k.fault(off, msg))
				continue
			}
			pkg, err := s.imp.Import(path)
			if err != nil {
				faults = append(faults, k.fault(off, cannotImport(path, err)))
				continue
			}
			switch name := importName(sp, pkg); name {
			case "_":
				blank = append(blank, path)
			case ".":
				for _, o := range pkg.Scope().Names() {
					if token.IsExported(o) {
						names[o] = entry{obj: pkg.Scope().Lookup(o)}
					}
				}
			default:
				names[name] = entry{importPath: path}
			}
		}
	}
	if len(faults) > 0 {
		return nil, nil, faults.sorted()
	}
	return names, blank, nil
}

func importName(sp *ast.ImportSpec, pkg *types.Package) string {
	if sp.Name != nil {
		return sp.Name.Name
	}
	return pkg.Name()
}

// noPath says why a text cannot be an import path, whatever packages there are; empty if it can.
func noPath(path string) string {
	switch {
	case path == "":
		return "invalid import path: it is empty"
	case path[0] == '/', path == ".", path == "..", strings.HasPrefix(path, "./"), strings.HasPrefix(path, "../"):
		return "invalid import path " + path + ": a package is imported by its module's path, not by a place in the file system"
	case strings.HasPrefix(path, checkPath+"/c"):
		return "could not import " + path + ": names of other cells need no import"
	}
	return ""
}

// cannotImport words why a package cannot be imported, and what to do about it.
func cannotImport(path string, err error) string {
	why, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	first, _, _ := strings.Cut(path, "/")
	if strings.Contains(why, "run %get") || strings.Contains(why, "needs Go ") { // it says what to do
		return fmt.Sprintf("could not import %s: %s", path, why)
	}
	if i := strings.Index(why, path); i >= 0 { // without the go command's own prefixes
		why = why[i:]
	}
	msg := fmt.Sprintf("could not import %s (%s)", path, why)
	if !strings.Contains(first, ".") {
		return msg
	}
	return msg + "; %get " + module(path) + " adds its module"
}

// module guesses the module of a package: on the well-known hosts it is the repository.
func module(path string) string {
	parts := strings.Split(path, "/")
	n := len(parts)
	switch parts[0] {
	case "github.com", "gitlab.com", "bitbucket.org", "golang.org":
		n = min(n, 3)
		if len(parts) > 3 && len(parts[3]) > 1 && parts[3][0] == 'v' && strings.Trim(parts[3][1:], "0123456789") == "" {
			n = 4
		}
	}
	return strings.Join(parts[:n], "/")
}

// missing gives the hint for an undefined name that is followed by a dot: the packages of that name in std.
func missing(name string) string {
	var paths []string
	for _, p := range strings.Fields(std) {
		if p[strings.LastIndexByte(p, '/')+1:] == name {
			paths = append(paths, strconv.Quote(p))
		}
	}
	if name == "rand" { // math/rand/v2 ends in its version
		paths = append([]string{`"math/rand/v2"`}, paths...)
	}
	if len(paths) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is not imported; add import %s", name, strings.Join(paths, " or "))
}

// std lists the import paths of the standard library by the names that people use them by (go list std, without
// internal and vendored ones).
const std = `archive/tar archive/zip bufio bytes cmp compress/bzip2 compress/flate compress/gzip compress/lzw compress/zlib
container/heap container/list container/ring context crypto crypto/aes crypto/cipher crypto/des crypto/dsa crypto/ecdh
crypto/ecdsa crypto/ed25519 crypto/elliptic crypto/fips140 crypto/hkdf crypto/hmac crypto/hpke crypto/md5 crypto/mlkem crypto/mlkem/mlkemtest crypto/pbkdf2
crypto/rand crypto/rc4 crypto/rsa crypto/sha1 crypto/sha256 crypto/sha3 crypto/sha512 crypto/subtle crypto/tls crypto/x509
crypto/x509/pkix database/sql database/sql/driver debug/buildinfo debug/dwarf debug/elf debug/gosym debug/macho debug/pe
debug/plan9obj embed encoding encoding/ascii85 encoding/asn1 encoding/base32 encoding/base64 encoding/binary encoding/csv
encoding/gob encoding/hex encoding/json encoding/pem encoding/xml errors expvar flag fmt go/ast go/build go/build/constraint
go/constant go/doc go/doc/comment go/format go/importer go/parser go/printer go/scanner go/token go/types go/version hash
hash/adler32 hash/crc32 hash/crc64 hash/fnv hash/maphash html html/template image image/color image/color/palette image/draw
image/gif image/jpeg image/png index/suffixarray io io/fs io/ioutil iter log log/slog log/syslog maps math math/big math/bits
math/cmplx math/rand mime mime/multipart mime/quotedprintable net net/http net/http/cgi net/http/cookiejar net/http/fcgi
net/http/httptest net/http/httptrace net/http/httputil net/http/pprof net/mail net/netip net/rpc net/rpc/jsonrpc net/smtp
net/textproto net/url os os/exec os/signal os/user path path/filepath plugin reflect regexp regexp/syntax runtime runtime/cgo
runtime/coverage runtime/debug runtime/metrics runtime/pprof runtime/race runtime/trace slices sort strconv strings structs
sync sync/atomic syscall testing testing/cryptotest testing/fstest testing/iotest testing/quick testing/slogtest
testing/synctest text/scanner text/tabwriter text/template text/template/parse time time/tzdata unicode unicode/utf16
unicode/utf8 unique unsafe weak`
