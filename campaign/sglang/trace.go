package sglang

import (
	"regexp"
	"strconv"
)

// Trace is what the name of a trace file says.
type Trace struct {
	Prefix         string // "" without one
	ID             string // of the profile: seconds since the epoch when it began; the same for all ranks
	TP, DP, PP, EP int    // rank in each of the groups; 0 where the name does not say
	Stage          string // "EXTEND", "DECODE" or "" when stages were not profiled one by one
	Merged         bool   // the traces of all ranks in one file
}

var (
	traceName  = regexp.MustCompile(`^(?:(.+)-)?(\d+\.\d+)-TP-(\d+)((?:-(?:DP|PP|EP)-\d+)*)(?:-(?:ForwardMode\.)?(EXTEND|DECODE))?\.trace\.json(?:\.gz)?$`)
	mergedName = regexp.MustCompile(`^merged-(?:(.+)-)?(\d+\.\d+)\.trace\.json(?:\.gz)?$`)
	groupName  = regexp.MustCompile(`-(DP|PP|EP)-(\d+)`)
)

// ParseTraceName reads the name of a trace file, without its folder. Other files of SGLang give false: memory snapshots,
// traces of graph capture, those of other profilers.
func ParseTraceName(name string) (Trace, bool) {
	if m := mergedName.FindStringSubmatch(name); m != nil {
		return Trace{Prefix: m[1], ID: m[2], Merged: true}, true
	}
	m := traceName.FindStringSubmatch(name)
	if m == nil {
		return Trace{}, false
	}
	t := Trace{Prefix: m[1], ID: m[2], Stage: m[5]}
	t.TP, _ = strconv.Atoi(m[3]) // digits; a number too long for an int is no rank
	for _, g := range groupName.FindAllStringSubmatch(m[4], -1) {
		n, _ := strconv.Atoi(g[2])
		switch g[1] {
		case "DP":
			t.DP = n
		case "PP":
			t.PP = n
		case "EP":
			t.EP = n
		}
	}
	return t, true
}
