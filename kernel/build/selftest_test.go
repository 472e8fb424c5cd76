package build

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// sabotaged is the kernel's sources with one repair of the worker taken out.
func sabotaged(t testing.TB, repair, instead string) fs.FS {
	files, err := sourceFiles(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	out, found := fstest.MapFS{}, 0
	for _, f := range files {
		text := string(f.data)
		if strings.HasPrefix(f.name, workerDir+"/") && strings.HasSuffix(f.name, ".go") {
			found += strings.Count(text, repair)
			text = strings.ReplaceAll(text, repair, instead)
		}
		out[f.name] = &fstest.MapFile{Data: []byte(text)}
	}
	if found == 0 {
		t.Fatalf("the worker has no %q any more: adapt this test", repair)
	}
	return out
}

// A worker without one of its repairs behaves as a Go release would that has that fault.
func TestSelfTestFindsKnownFaults(t *testing.T) {
	for _, c := range []struct{ fault, repair, instead, want string }{
		{"itabs", "*slot = want", "_ = slot", "(see golang/go#80107): assertion: "},
		{"hashes", "*h = (*abiType)", "_ = (*abiType)", "(see golang/go#80107): type switch: "},
		{"fields", "fixFields((*abiStruct)(unsafe.Pointer(t)))", "_ = fixFields", ": reflection: fields show as "},
		{"masks", "	repairMakeFunc()\n", "\n", ": masks: "},
		{"initialisations", "\tinitialise(symbol)\n", "\t_ = initialise\n", ": initialisation: "},
	} {
		t.Run(c.fault, func(t *testing.T) {
			o := options(t, t.TempDir())
			o.Sources = sabotaged(t, c.repair, c.instead)
			b := open(t, o)
			_, err := b.Worker(t.Context())
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), b.Toolchain.Version) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			// the verdict is kept
			o.Progress = func(s string) { t.Errorf("the second start does %q", s) }
			if _, again := open(t, o).Worker(t.Context()); again == nil || again.Error() != err.Error() {
				t.Errorf("the second start: %v", again)
			}
		})
	}
}

func TestAccidentIsNoVerdict(t *testing.T) {
	b := open(t, options(t, t.TempDir()))
	b.home = t.TempDir()
	if err := b.selfTest(t.Context(), "/bin/false"); err == nil {
		t.Error("a worker that ends at once passes")
	}
	if _, err := os.Stat(b.home + "/selftest"); err == nil {
		t.Error("an accident was kept as the verdict on the toolchain")
	}
}
