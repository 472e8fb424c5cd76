package data

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/rooflab/rooflab/internal/units"
)

//go:embed hardware/*.json models/*.json
var tables embed.FS

// GPUSpec is what the maker prints about a GPU. A figure without a source is left out, not guessed: its Value is 0.
type GPUSpec struct {
	Name      string   `json:"name"` // as nvidia-smi or rocm-smi print it
	Aliases   []string `json:"aliases,omitempty"`
	Memory    Figure   `json:"memory,omitzero"` // bytes
	Bandwidth Figure   `json:"bandwidth"`       // device memory, bytes/s
	Peaks     []Peak   `json:"peaks"`           // matrix products
	L2        Figure   `json:"l2,omitzero"`     // bytes
	NVLink    Figure   `json:"nvlink,omitzero"` // bytes/s
	PCIe      Figure   `json:"pcie,omitzero"`   // bytes/s
	Notes     []string `json:"notes,omitempty"`
}

// Figure is a printed number with its source: the maker's document, read in public quotations of it that agree.
type Figure struct {
	Value  int64  `json:"value"`
	Source string `json:"source"`
	Note   string `json:"note,omitempty"`
}

// Peak is the peak rate of matrix products with elements of DType, in FLOP/s (OP/s for integers).
// Dense is true for every entry: makers print the rate with 2:4 sparsity first, which nothing here uses.
type Peak struct {
	DType  string `json:"dtype"` // "bf16", "fp16", "fp8", "fp4", "int8", "fp32"
	Value  int64  `json:"value"`
	Dense  bool   `json:"dense"`
	Source string `json:"source"`
	Note   string `json:"note,omitempty"`
}

// GPU finds a GPU by name, such as "NVIDIA H200" or "h200". The error lists the known ones.
func GPU(name string) (GPUSpec, error) {
	specs, err := GPUs()
	if err != nil {
		return GPUSpec{}, err
	}
	want := plainName(name)
	var known []string
	for _, s := range specs {
		for _, n := range append([]string{s.Name}, s.Aliases...) {
			if want == plainName(n) {
				return s, nil
			}
		}
		known = append(known, s.Name)
	}
	return GPUSpec{}, fmt.Errorf("find GPU %q: not in the table; known: %s", name, strings.Join(known, ", "))
}

// GPUs returns all known GPUs in the order of their file names.
func GPUs() ([]GPUSpec, error) {
	names, err := fs.Glob(tables, "hardware/*.json")
	if err != nil {
		return nil, fmt.Errorf("list hardware: %w", err)
	}
	var specs []GPUSpec
	for _, n := range names {
		raw, err := tables.ReadFile(n)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", n, err)
		}
		var s GPUSpec
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("read %s: %w", n, err)
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// plainName drops the maker's name and everything but letters and digits.
func plainName(name string) string {
	name = strings.ToLower(name)
	for _, maker := range []string{"nvidia", "amd", "instinct"} {
		name = strings.TrimPrefix(strings.TrimSpace(name), maker)
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, name)
}

// Peak returns the dense peak for the element type; Value is 0 if the maker prints none.
func (s GPUSpec) Peak(dtype string) Peak {
	for _, p := range s.Peaks {
		if p.DType == dtype {
			return p
		}
	}
	return Peak{DType: dtype, Dense: true}
}

// Table shows every figure with its source.
func (s GPUSpec) Table() Table {
	t := Table{ID: "gpu", Title: s.Name + ", as its maker prints it", Note: strings.Join(s.Notes, "; "),
		Columns: []Column{{Head: "Figure"}, {Head: "Value", Numeric: true}, {Head: "Unit"}, {Head: "Source"}}}
	row := func(label string, value int64, scale int64, decimals int, unit, source, note string) {
		if value == 0 {
			return
		}
		if note != "" {
			source += "; " + note
		}
		t.Rows = append(t.Rows, Row{Cells: []string{label, units.Fixed(value, scale, decimals), unit, source}})
	}
	row("Device memory", s.Memory.Value, 1e9, 0, "GB", s.Memory.Source, s.Memory.Note)
	row("Memory bandwidth", s.Bandwidth.Value, 1e9, 0, "GB/s", s.Bandwidth.Source, s.Bandwidth.Note)
	for _, p := range s.Peaks {
		row("Dense peak, "+p.DType, p.Value, 1e12, 1, "TFLOP/s", p.Source, p.Note)
	}
	row("L2 cache", s.L2.Value, 1<<20, 0, "MiB", s.L2.Source, s.L2.Note)
	row("NVLink", s.NVLink.Value, 1e9, 0, "GB/s", s.NVLink.Source, s.NVLink.Note)
	row("PCIe", s.PCIe.Value, 1e9, 0, "GB/s", s.PCIe.Source, s.PCIe.Note)
	return t
}

// ModelConfig returns the config.json of a known model, such as "kimi-k2.5". The error lists the known ones.
func ModelConfig(name string) ([]byte, error) {
	for _, n := range ModelNames() {
		if n == strings.ToLower(name) {
			return tables.ReadFile("models/" + n + ".json")
		}
	}
	return nil, fmt.Errorf("find model %q: not in the table; known: %s", name, strings.Join(ModelNames(), ", "))
}

// ModelNames returns the names of the known models, sorted.
func ModelNames() []string {
	files, _ := fs.Glob(tables, "models/*.json") // the pattern is constant and valid
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), ".json"))
	}
	return names
}
