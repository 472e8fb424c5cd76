package build

import (
	"fmt"
	"testing"
)

// BenchmarkStart is what lies between a warm cache and a worker that waits for the first cell.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	newBench(b, dir)
	for b.Loop() {
		s, err := New(b.Context(), options(b, dir))
		if err != nil {
			b.Fatal(err)
		}
		program, err := s.Worker(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		w, err := startThrowAway(b.Context(), program)
		if err != nil {
			b.Fatal(err)
		}
		w.end()
		s.Close()
	}
}

// BenchmarkCell compiles and links cells that nobody has compiled before, and takes cells from the cache.
func BenchmarkCell(b *testing.B) {
	s := newBench(b, b.TempDir())
	unique := 0
	for _, imports := range []string{"fmt", "net/http"} {
		src := func(n int) []byte {
			return source(fmt.Sprintf("import p %q", imports), fmt.Sprintf("const unique = %d\nvar P = p.%s", n, map[string]string{"fmt": "Sprint", "net/http": "Get"}[imports]), "")
		}
		b.Run(imports, func(b *testing.B) {
			for b.Loop() {
				unique++
				built, err := s.Cell(b.Context(), Unit{Cell: unique, Pkg: fmt.Sprintf("nb/c%d", unique), Source: src(unique)})
				if err != nil || built.Times.Cached {
					b.Fatal(err, built.Times)
				}
			}
		})
		b.Run(imports+"-cached", func(b *testing.B) {
			u := Unit{Cell: unique, Pkg: fmt.Sprintf("nb/c%d", unique), Source: src(unique)}
			for b.Loop() {
				if built, err := s.Cell(b.Context(), u); err != nil || !built.Times.Cached {
					b.Fatal(err, built.Times)
				}
			}
		})
	}
}
