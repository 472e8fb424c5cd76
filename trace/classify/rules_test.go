package classify

import "testing"

func TestRulesFileParses(t *testing.T) {
	set, err := parseRules(rulesText)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.rules) < 40 {
		t.Errorf("%d rules", len(set.rules))
	}
}

func TestRuleErrorsNameLineAndReason(t *testing.T) {
	for text, want := range map[string]string{
		"x norm - rms":            `rules.txt:1: priority "x" is no number`,
		"1 norm block=cellar rms": `rules.txt:1: unknown block "cellar"`,
		"1 norm - @nothing":       `rules.txt:1: @nothing is not defined above`,
		"1 norm -":                `rules.txt:1: expected priority, component, where and pattern, found "1 norm -"`,
		"1 norm planet=mars rms":  `rules.txt:1: unknown condition "planet=mars"`,
	} {
		if _, err := parseRules(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestFunctionPartOfName(t *testing.T) {
	for name, want := range map[string]string{
		"std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)": "vllm::fused_add_rms_norm_kernel",
		"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)":                                                            "multimem_all_reduce_kernel",
		"void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<int> > >(int)":                                                                     "cutlass::device_kernel flash::FlashAttnFwdCombine cute::tuple",
		"void cutlass::device_kernel<Gemm>(Gemm::Params)":                                                                                                      "cutlass::device_kernel Gemm",
		"_ZN5aiter24add_rmsnorm_quant_kernelIDF16bLi256EEEvPT0_":                                                                                               "aiter::add_rmsnorm_quant_kernel",
		"_ZN1aI":               "a",
		"_Z9":                  "",
		"<<<":                  "",
		"triton_poi_fused_2":   "triton_poi_fused_2",
		"Memset (Device)":      "Memset",
		"ncclDevKernel_X(int)": "ncclDevKernel_X",
	} {
		if got := function(name); got != want {
			t.Errorf("%s\n got  %q\n want %q", name, got, want)
		}
	}
}

func FuzzFunction(f *testing.F) {
	f.Add("_ZN7ck_tile6kentryILi2ENS_38FmhaE")
	f.Add("void a::b<c<(1>2)>>(int)")
	f.Fuzz(func(t *testing.T, name string) { Name(name) })
}
