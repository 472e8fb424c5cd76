package model

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// Quant says how weights are stored and which modules are left in the model's dtype.
type Quant struct {
	Method string // quant_method: "compressed-tensors", "fp8", "modelopt", "mxfp4", "awq", "gptq"; "" without
	Format Format // of the quantised weights
	KVFP8  bool   // the checkpoint asks for an FP8 KV cache
	Ignore []string

	ignore []matcher
}

// Format is how one weight matrix is stored: packed elements, and scales for groups along K or for blocks.
type Format struct {
	Name       string // "int4 group 32", "fp8 block 128x128", "nvfp4", "mxfp4"; "" for the model's dtype
	Bits       int64
	Group      int64 // elements along K that share a scale; 0: one scale a column
	ScaleBytes int64
	ZeroBits   int64 // stored zero point a group
	BlockN     int64 // blocks of BlockN x BlockK share a scale; 0 without blocks
	BlockK     int64
	PerTensor  bool // one scale a matrix
}

// Bytes returns the bytes of a K x N matrix: the packed elements and the scales (with zero points).
func (f Format) Bytes(k, n int64) (packed, scales int64) {
	packed = ceilDiv(k*n*f.Bits, 8)
	switch {
	case f.PerTensor:
		return packed, f.ScaleBytes
	case f.BlockN > 0:
		return packed, ceilDiv(k, f.BlockK) * ceilDiv(n, f.BlockN) * f.ScaleBytes
	}
	groups := n
	if f.Group > 0 {
		groups = ceilDiv(k, f.Group) * n
	}
	return packed, groups*f.ScaleBytes + ceilDiv(groups*f.ZeroBits, 8)
}

// Describe returns the format of the quantised weights, or the dtype of the model.
func (q Quant) Describe(dtype string) string {
	if q.Method == "" {
		return dtype
	}
	return q.Format.Name
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// readQuant reads quantization_config, or hf_quant_config.json when the configuration has none.
func readQuant(q, hf gjson.Result) (Quant, error) {
	if !q.IsObject() {
		if hf.Get("quantization").IsObject() {
			return readModelOpt(hf.Get("quantization"))
		}
		return Quant{}, nil
	}
	out := Quant{Method: q.Get("quant_method").String()}
	var err error
	switch out.Method {
	case "compressed-tensors":
		err = out.compressedTensors(q)
	case "fp8":
		out.Format = fp8Format(q.Get("weight_block_size"))
	case "mxfp4":
		out.Format = mxfp4
	case "awq", "gptq":
		err = out.grouped(q)
	case "modelopt", "modelopt_fp4", "nvfp4":
		return readModelOpt(q)
	default:
		err = fmt.Errorf("key %q: %q is not a scheme rooflab knows", "quantization_config.quant_method", out.Method)
	}
	if err != nil {
		return Quant{}, err
	}
	if len(out.Ignore) == 0 {
		for _, key := range []string{"ignore", "ignored_layers", "modules_to_not_convert"} {
			out.Ignore = append(out.Ignore, stringList(q.Get(key))...)
		}
	}
	return out, out.compile()
}

var (
	nvfp4 = Format{Name: "nvfp4 group 16", Bits: 4, Group: 16, ScaleBytes: 1} // plus one fp32 a tensor, not counted
	mxfp4 = Format{Name: "mxfp4 group 32", Bits: 4, Group: 32, ScaleBytes: 1} // e8m0 scales
)

func fp8Format(block gjson.Result) Format {
	if b := block.Array(); len(b) == 2 && b[0].Int() > 0 && b[1].Int() > 0 {
		n, k := b[0].Int(), b[1].Int()
		return Format{Name: fmt.Sprintf("fp8 block %dx%d", n, k), Bits: 8, ScaleBytes: 4, BlockN: n, BlockK: k}
	}
	return Format{Name: "fp8", Bits: 8, ScaleBytes: 4, PerTensor: true}
}

// compressedTensors reads the weights of the config groups. Several groups with different schemes are refused:
// which module has which would have to be decided by targets.
func (q *Quant) compressedTensors(c gjson.Result) error {
	var err error
	c.Get("config_groups").ForEach(func(name, group gjson.Result) bool {
		var f Format
		if f, err = compressedFormat("quantization_config.config_groups."+name.String(), group.Get("weights")); err != nil {
			return false
		}
		if q.Format.Name != "" && q.Format != f {
			err = fmt.Errorf("key %q: groups %q and %q in one model are not supported", "quantization_config.config_groups", q.Format.Name, f.Name)
			return false
		}
		q.Format = f
		return true
	})
	if err == nil && q.Format.Name == "" {
		err = fmt.Errorf("key %q: no group with weights", "quantization_config.config_groups")
	}
	q.KVFP8 = c.Get("kv_cache_scheme.num_bits").Int() == 8
	return err
}

func compressedFormat(key string, w gjson.Result) (Format, error) {
	bits, group := w.Get("num_bits").Int(), w.Get("group_size").Int()
	if bits != 4 && bits != 8 {
		return Format{}, fmt.Errorf("key %q: %s bits a weight; 4 or 8 expected", key+".weights.num_bits", w.Get("num_bits").Raw)
	}
	f := Format{Bits: bits, ScaleBytes: 2}
	if w.Get("type").String() == "float" {
		switch {
		case bits == 4 && group == 16:
			return nvfp4, nil
		case bits == 4 && group == 32:
			return mxfp4, nil
		}
		if w.Get("strategy").String() == "block" {
			return fp8Format(w.Get("block_structure")), nil
		}
		f.Name = "fp8"
	} else {
		f.Name = fmt.Sprintf("int%d", bits)
		if s := w.Get("symmetric"); s.Exists() && !s.Bool() {
			f.ZeroBits = bits
		}
	}
	switch strategy := w.Get("strategy").String(); strategy {
	case "group":
		if group <= 0 {
			return Format{}, fmt.Errorf("key %q: a group size is expected", key+".weights.group_size")
		}
		f.Group = group
		f.Name += fmt.Sprintf(" group %d", group)
	case "channel":
		f.Name += " per channel"
	case "tensor":
		f.PerTensor = true
	default:
		return Format{}, fmt.Errorf("key %q: %q is not group, channel, tensor or block", key+".weights.strategy", strategy)
	}
	return f, nil
}

// grouped reads AWQ and GPTQ: bits, group size, fp16 scales, zero points unless symmetric.
func (q *Quant) grouped(c gjson.Result) error {
	bits := c.Get("bits").Int()
	if bits == 0 {
		bits = c.Get("w_bit").Int()
	}
	group := c.Get("group_size").Int()
	if group == 0 {
		group = c.Get("q_group_size").Int()
	}
	if bits != 4 && bits != 8 {
		return fmt.Errorf("key %q: %d bits a weight; 4 or 8 expected", "quantization_config.bits", bits)
	}
	f := Format{Name: fmt.Sprintf("int%d", bits), Bits: bits, ScaleBytes: 2}
	if group > 0 {
		f.Group = group
		f.Name += fmt.Sprintf(" group %d", group)
	}
	if zp := c.Get("zero_point"); q.Method == "awq" && (!zp.Exists() || zp.Bool()) {
		f.ZeroBits = bits
	}
	if sym := c.Get("sym"); q.Method == "gptq" && sym.Exists() && !sym.Bool() {
		f.ZeroBits = bits
	}
	q.Format = f
	return nil
}

func readModelOpt(c gjson.Result) (Quant, error) {
	q := Quant{Method: "modelopt", KVFP8: c.Get("kv_cache_quant_algo").String() == "FP8"}
	switch algo := c.Get("quant_algo").String(); algo {
	case "NVFP4":
		q.Format = nvfp4
	case "FP8":
		q.Format = fp8Format(gjson.Result{})
	default:
		return Quant{}, fmt.Errorf("key %q: %q is not NVFP4 or FP8", "quantization.quant_algo", algo)
	}
	q.Ignore = append(stringList(c.Get("exclude_modules")), stringList(c.Get("ignore"))...)
	return q, q.compile()
}

func stringList(v gjson.Result) []string {
	var out []string
	for _, s := range v.Array() {
		if s.Type == gjson.String {
			out = append(out, s.Str)
		}
	}
	return out
}

// matcher decides whether a module is left in the model's dtype.
type matcher struct {
	re   *regexp.Regexp
	name string
}

// compile turns the ignore list into matchers. Three dialects are in use: compressed-tensors writes "re:" and a pattern
// that is searched, ModelOpt and gpt-oss write globs, and plain names stand for a module or everything below it.
func (q *Quant) compile() error {
	for _, p := range q.Ignore {
		expr, isRE := strings.CutPrefix(p, "re:")
		switch {
		case isRE:
		case strings.Contains(p, "*"):
			expr = "^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*") + `(\.|$)`
		default:
			q.ignore = append(q.ignore, matcher{name: p})
			continue
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return fmt.Errorf("key %q: pattern %q: %w", "quantization_config.ignore", p, err)
		}
		q.ignore = append(q.ignore, matcher{re: re})
	}
	return nil
}

// matches reports whether the pattern names the module, one of its parents, or (a bare last word such as "gate") its end.
func (m matcher) matches(module string) bool {
	if m.re != nil {
		return m.re.MatchString(module)
	}
	return module == m.name || strings.HasPrefix(module, m.name+".") || strings.HasSuffix(module, "."+m.name)
}

// format returns how the module's weights are stored, given its full name in the checkpoint.
func (m Model) format(module string) Format {
	plain := Format{Bits: 8 * m.BytesPerElement()}
	if m.Quant.Method == "" {
		return plain
	}
	for _, p := range m.Quant.ignore {
		if p.matches(module) {
			return plain
		}
	}
	return m.Quant.Format
}
