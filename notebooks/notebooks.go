// Package notebooks holds the five notebooks of a campaign, as they are before they run.
// It does not run them (nbclient does) and does not read their outputs.
package notebooks

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.ipynb
var files embed.FS

// Phase is one notebook of a campaign, in the order of growing disturbance to the server.
type Phase struct {
	Number   int
	Notebook string // "10-macro"
	What     string
}

// Phases lists the notebooks in the order in which they run.
func Phases() []Phase {
	return []Phase{
		{0, "00-preflight", "read before measuring: model, launch, live process, drift, tools"},
		{1, "10-macro", "macro profile over HTTP under load, no restart"},
		{2, "20-micro", "micro-benchmarks against the roofline"},
		{3, "30-nsys", "inside the CUDA graphs: the plan with its costs, and what is there already"},
		{4, "40-findings", "bottleneck table, verdicts, tiers"},
	}
}

// Read returns the notebook's file.
func Read(name string) ([]byte, error) {
	b, err := fs.ReadFile(files, name+".ipynb")
	if err != nil {
		var have []string
		for _, p := range Phases() {
			have = append(have, p.Notebook)
		}
		return nil, fmt.Errorf("no notebook %q; there are %s", name, strings.Join(have, ", "))
	}
	return b, nil
}
