package rules

import "github.com/rooflab/rooflab/data"

// ncclChooses names what happens when nothing is prescribed.
const ncclChooses = "NCCL’s own choice"

// NCCL is what an environment prescribes to NCCL for its all-reduces. The zero value prescribes nothing.
type NCCL struct {
	Proto  string `json:"proto,omitempty"` // NCCL_PROTO, such as "LL"
	Algo   string `json:"algo,omitempty"`  // NCCL_ALGO, such as "Ring"
	P2POff bool   `json:"p2p_off,omitempty"`
}

// Prescribed reads an environment.
func Prescribed(env map[string]string) NCCL {
	off := env["NCCL_P2P_DISABLE"]
	return NCCL{Proto: env["NCCL_PROTO"], Algo: env["NCCL_ALGO"], P2POff: off != "" && off != "0"}
}

// Chooses says that neither protocol nor algorithm is prescribed: the library chooses by message size.
func (n NCCL) Chooses() bool { return n.Proto == "" && n.Algo == "" }

// IsOf says whether an environment prescribes the same. One that was not recorded contradicts nothing.
func (n NCCL) IsOf(env map[string]string) bool { return env == nil || Prescribed(env) == n }

// Name is what people call the setting: "LL over Ring".
func (n NCCL) Name() string {
	switch {
	case n.Chooses():
		return ncclChooses
	case n.Algo == "":
		return n.Proto
	case n.Proto == "":
		return n.Algo
	}
	return n.Proto + " over " + n.Algo
}

// variables lists what would have to be unset.
func (n NCCL) variables() string {
	var names []string
	if n.Proto != "" {
		names = append(names, "`NCCL_PROTO`")
	}
	if n.Algo != "" {
		names = append(names, "`NCCL_ALGO`")
	}
	return list(names)
}

// Findings judges the belief that what is prescribed is right. There is none when NCCL chooses.
func (n NCCL) Findings(ws []Window, alts []Alternative, ref data.Ref) []data.Finding {
	if n.Chooses() {
		return nil
	}
	return []data.Finding{Setting("allreduce-setting", n.Name()+" is the right NCCL setting for decoding.",
		ncclChooses+" on the same path", ws, alts, ref)}
}

// Savings is the tier of leaving the choice to NCCL. There is none when NCCL chooses already.
func (n NCCL) Savings(ws []Window, alts []Alternative) []Saving {
	if n.Chooses() {
		return nil
	}
	return []Saving{{
		Kind:       "Tier 0, configuration",
		Change:     "Let NCCL choose: unset " + n.variables(),
		Detail:     "One restart. Holds if the ratio of the two curves carries over to the server. Test: restart, measure the highest loads again, a quarter of an hour.",
		Components: []string{"allreduce"},
		Ns:         FromRatio(ws, "allreduce", alts),
	}}
}
