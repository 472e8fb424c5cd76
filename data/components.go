package data

import "strings"

// Families group components; a family has one colour in every chart, table and page, and one place in every stack.
const (
	Network   = "network"
	Experts   = "experts"
	Attention = "attention"
	Dense     = "dense"
	Small     = "small"
	Copies    = "copies"
	Host      = "host"
	Unknown   = "unknown"
	Idle      = "idle"
)

// Families returns the families in the order in which stacks draw them.
func Families() []string {
	return []string{Network, Experts, Attention, Dense, Small, Copies, Host, Unknown, Idle}
}

// FamilyLabel returns the words for a family: "Network", "Expert GEMMs", ...
func FamilyLabel(family string) string {
	return familyLabels[family]
}

var familyLabels = map[string]string{
	Network: "Network", Experts: "Expert GEMMs", Attention: "Attention", Dense: "Dense GEMMs",
	Small: "Small kernels", Copies: "Casts, copies", Host: "Python, host work", Unknown: "Not recognised", Idle: "Idle",
}

// Family returns the family of a component, such as "network" for "allreduce".
// A component that is not in the list belongs to Unknown.
func Family(component string) string {
	if f, ok := familyOf[component]; ok {
		return f
	}
	if i := strings.IndexByte(component, '/'); i > 0 { // "moe.experts/w13": a part
		return Family(component[:i])
	}
	return Unknown
}

var familyOf = map[string]string{
	"allreduce": Network, "allgather": Network, "reduce_scatter": Network, "all_to_all": Network, "p2p": Network,
	"moe.experts":    Experts,
	"attention.core": Attention, "attention.kv_write": Attention,
	"attention.proj": Dense, "moe.shared_expert": Dense, "moe.router": Dense, "mlp.dense": Dense, "lm_head": Dense,
	"moe.routing": Small, "moe.activation": Small, "norm": Small, "rope": Small, "embedding": Small,
	"elementwise": Small, "sampling": Small,
	"cast_copy": Copies, "memory": Copies,
	"host":    Host, // of the CPU, outside of operators; only traces without GPU work have it
	"unknown": Unknown, "idle": Idle,
}

// ComponentLabel returns the words for a component: "All-reduce" for "allreduce". An unlisted name is returned as it is.
func ComponentLabel(component string) string {
	if l, ok := componentLabels[component]; ok {
		return l
	}
	return component
}

var componentLabels = map[string]string{
	"allreduce": "All-reduce", "allgather": "All-gather", "reduce_scatter": "Reduce-scatter", "all_to_all": "All-to-all",
	"p2p": "Point to point", "moe.experts": "Expert GEMMs", "attention.core": "Attention kernels",
	"attention.kv_write": "KV cache write", "attention.proj": "Attention projections", "moe.shared_expert": "Shared expert",
	"moe.router": "Router GEMM", "mlp.dense": "Dense MLP", "lm_head": "lm_head", "moe.routing": "Expert routing, combine",
	"moe.activation": "Expert activation", "norm": "Norms", "rope": "Rotary embedding", "embedding": "Embedding",
	"elementwise": "Elementwise", "sampling": "Sampling", "cast_copy": "Casts and copies", "memory": "Memory copies",
	"host": "Python, host work", "unknown": "Not recognised", "idle": "Idle",
}
