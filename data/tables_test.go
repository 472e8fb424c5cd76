package data

import (
	"strings"
	"testing"
)

func TestGPUsAreFoundByTheNamesThatToolsPrint(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA H200":           "NVIDIA H200",
		"h200":                  "NVIDIA H200",
		"NVIDIA H100 80GB HBM3": "NVIDIA H100 80GB HBM3",
		"A100 80GB":             "NVIDIA A100-SXM4-80GB",
		"NVIDIA A100-SXM4-80GB": "NVIDIA A100-SXM4-80GB",
		"AMD Instinct MI300X":   "AMD Instinct MI300X",
		"NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
	} {
		if got, err := GPU(name); err != nil || got.Name != want {
			t.Errorf("GPU(%q) = %q, %v; want %q", name, got.Name, err, want)
		}
	}
	for _, name := range []string{"H20", "NVIDIA RTX PRO 6000 Blackwell Server Edition", ""} {
		if got, err := GPU(name); err == nil || !strings.Contains(err.Error(), "NVIDIA H200") {
			t.Errorf("GPU(%q) = %q, %v; want an error that lists the known ones", name, got.Name, err)
		}
	}
}

func TestEveryHardwareFigureHasASourceAndIsDense(t *testing.T) {
	specs, err := GPUs()
	if err != nil || len(specs) < 7 {
		t.Fatalf("%d GPUs, %v", len(specs), err)
	}
	for _, s := range specs {
		if s.Bandwidth.Value == 0 {
			t.Errorf("%s has no memory bandwidth", s.Name)
		}
		for what, f := range map[string]Figure{"memory": s.Memory, "bandwidth": s.Bandwidth, "l2": s.L2, "nvlink": s.NVLink, "pcie": s.PCIe} {
			if f.Value != 0 && f.Source == "" {
				t.Errorf("%s: %s has no source", s.Name, what)
			}
		}
		for _, p := range s.Peaks {
			if !p.Dense || p.Source == "" || p.Value == 0 {
				t.Errorf("%s: peak %+v", s.Name, p)
			}
		}
	}
	h200, err := GPU("H200")
	if err != nil {
		t.Fatal(err)
	}
	if h200.Bandwidth.Value != 4_800_000_000_000 || h200.Peak("bf16").Value != 989_500_000_000_000 || h200.Peak("fp4").Value != 0 {
		t.Errorf("H200: %+v", h200)
	}
	if text := h200.Table().Text(); !strings.Contains(text, "989.5") || !strings.Contains(text, "data sheet") {
		t.Errorf("table:\n%s", text)
	}
}

func TestModelConfigurationsAreFound(t *testing.T) {
	if raw, err := ModelConfig("Kimi-K2.5"); err != nil || !strings.Contains(string(raw), `"n_routed_experts": 384`) {
		t.Errorf("kimi-k2.5: %d bytes, %v", len(raw), err)
	}
	if _, err := ModelConfig("gpt-2"); err == nil || !strings.Contains(err.Error(), "kimi-k2.5") {
		t.Errorf("gpt-2: %v; want an error that lists the known models", err)
	}
}
