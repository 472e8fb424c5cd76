package micro

import (
	"bytes"
	"compress/gzip"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/campaign/model"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

func campaign(t *testing.T, elem ...string) string {
	t.Helper()
	return filepath.Join(append([]string{sharedtest.Dir(t), "campaign"}, elem...)...)
}

func loadMoE(t *testing.T) (MoE, model.Rank) {
	t.Helper()
	m, err := LoadMoE(campaign(t, "micro", "marlin_moe.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := model.Load(campaign(t, "model", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	rank, err := config.Rank(2)
	if err != nil {
		t.Fatal(err)
	}
	return m, rank
}

func TestMarlinReachesTheKnownSharesOfTheMeasuredRoof(t *testing.T) {
	m, rank := loadMoE(t)
	roof, err := m.Roof()
	if err != nil {
		t.Fatal(err)
	}
	if math.Round(roof.Ridge()) != 177 || roof.Bandwidth.Value != 4261421448424 || roof.Compute.Value != 753057117674801 {
		t.Errorf("roof %+v with ridge %.1f", roof, roof.Ridge())
	}
	want := map[string]float64{"M = 1": 25, "M = 64": 62, "M = 256": 57}
	for _, p := range m.Points(rank, "uniform") {
		if pct, ok := want[p.Label]; ok && math.Round(roof.Percent(p)) != pct {
			t.Errorf("%s reaches %.1f %%, want %.0f (%+v)", p.Label, roof.Percent(p), pct, p)
		}
		delete(want, p.Label)
	}
	if len(want) > 0 {
		t.Errorf("not measured: %v", want)
	}
	if len(m.Runs) != 29 || len(m.Points(rank, "same")) != 7 || m.Device != "NVIDIA H200" || m.L2Bytes != 62914560 {
		t.Errorf("%d runs on %s, %d points with equal routing", len(m.Runs), m.Device, len(m.Points(rank, "same")))
	}
	r, err := m.Run("uniform", 64)
	if err != nil || r.Experts < 283 || r.Experts > 286 || r.MedianNs/1000 != 349 {
		t.Errorf("M = 64: %+v, %v", r, err)
	}
	if _, err := m.Run("uniform", 3); err == nil {
		t.Error("a size that was not measured is found")
	}
	if text := m.Table().Text(); !strings.Contains(text, "34.4") {
		t.Errorf("table:\n%s", text)
	}
	if text := r.KernelTable().Text(); !strings.Contains(text, "Marlin<") || !strings.Contains(text, "moe_align_block_size_kernel") {
		t.Errorf("kernels:\n%s", text)
	}
}

func TestLLOverRingAgainstTheChoiceOfNCCL(t *testing.T) {
	ll, err := LoadAllReduce(campaign(t, "micro", "allreduce_hostmem_ll_ring.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	auto, err := LoadAllReduce(campaign(t, "micro", "allreduce_hostmem_auto.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for tokens, want := range map[int64]float64{1: 1.00, 64: 1.70, 256: 2.63} {
		if got, err := Ratio(ll, auto, tokens); err != nil || math.Abs(got-want) > 0.005 {
			t.Errorf("%d tokens: %.3f times, %v; want %.2f", tokens, got, err, want)
		}
	}
	if _, err := Ratio(ll, auto, 3); err == nil {
		t.Error("a size that was not measured has a ratio")
	}
	if ll.Setting() != "NCCL_ALGO=Ring NCCL_NVLS_ENABLE=0 NCCL_P2P_DISABLE=1 NCCL_PROTO=LL" {
		t.Errorf("setting %q", ll.Setting())
	}
	p := AllReducePoint{Bytes: 1_000_000, GraphNs: 100_000}
	if got := p.BusBandwidth(2); got != 10_000_000_000 {
		t.Errorf("bus bandwidth of two ranks: %d", got)
	}
	if got := p.BusBandwidth(8); got != 17_500_000_000 {
		t.Errorf("bus bandwidth of eight ranks: %d", got)
	}
	ll.Label, auto.Label = "LL + Ring", "NCCL's choice"
	if text := CompareTable(ll, auto).Text(); !strings.Contains(text, "2.63") {
		t.Errorf("comparison:\n%s", text)
	}
	if text := ll.Table(2).Text(); !strings.Contains(text, "14.3") {
		t.Errorf("table:\n%s", text)
	}
}

func TestNsightComputeDetailsOfTheMarlinKernels(t *testing.T) {
	kernels, err := LoadNcu(campaign(t, "micro", "ncu_marlin_details.csv"))
	if err != nil {
		t.Fatal(err)
	}
	kernels, err = LabelNcu(kernels, 1, 64, 256)
	if err != nil {
		t.Fatal(err)
	}
	k := kernels[0]
	if k.Tokens != 1 || k.Part != "w13" || k.DurationNs != 14590 || k.DRAM != 1_140_000_000_000 || k.DRAMPct != 23.68 || k.SMPct != 23.40 || k.Occupancy != 12.27 {
		t.Errorf("first kernel %+v", k)
	}
	for _, k := range kernels {
		if k.DurationNs == 0 || k.DRAM == 0 || k.SMPct == 0 {
			t.Errorf("kernel %s misses a metric: %+v", k.ID, k)
		}
	}
	if text := NcuTable(kernels).Text(); !strings.Contains(text, "23.7") {
		t.Errorf("table:\n%s", text)
	}
	if _, err := LabelNcu(kernels, 1, 64); err == nil {
		t.Error("six launches are taken for two calls")
	}
}

func TestNsightComputeFilesMayBeCompressed(t *testing.T) {
	const text = "==PROF== Connected\n" + `"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"` + "\n" +
		`"0","k","GPU Speed Of Light Throughput","Duration","ms","1,234.5"` + "\n"
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, raw := range [][]byte{[]byte(text), z.Bytes()} {
		k, err := ReadNcu("x.csv", raw)
		if err != nil || len(k) != 1 || k[0].DurationNs != 1_234_500_000 {
			t.Errorf("%+v, %v", k, err)
		}
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	const head = `"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"` + "\n"
	for _, c := range []struct {
		read func() error
		want string
	}{
		{func() error { _, err := ReadMoE("m.jsonl", []byte("# x\n{\"kind\":\"fused\"")); return err }, "m.jsonl:2: not JSON"},
		{func() error { _, err := ReadMoE("m.jsonl", []byte("{\"kind\":\"other\"}")); return err }, `m.jsonl:1: key "kind"`},
		{func() error { _, err := ReadMoE("m.jsonl", []byte("\n{\"kind\":\"fused\",\"M\":\"x\"}")); return err }, `m.jsonl:2: key "M" is "x"`},
		{func() error { _, err := ReadMoE("m.jsonl", nil); return err }, "no line of kind"},
		{func() error { _, err := ReadAllReduce("a.jsonl", []byte("{\"kind\":\"allreduce\"}")); return err }, `a.jsonl:1: key "tokens" is missing`},
		{func() error { _, err := ReadNcu("n.csv", []byte("a,b\n")); return err }, "no header line"},
		{func() error { _, err := ReadNcu("n.csv", []byte(`"ID","x"`+"\n")); return err }, `no column "Kernel Name"`},
		{func() error {
			_, err := ReadNcu("n.csv", []byte("skip\n"+head+`"0","k","Occupancy","Achieved Occupancy","%","n/a"`+"\n"))
			return err
		}, `n.csv:3: metric "Achieved Occupancy"`},
	} {
		if err := c.read(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

func FuzzReadMoE(f *testing.F) {
	f.Add([]byte(`{"kind":"fused","routing":"uniform","M":1,"distinct_experts":8,"us_min":1,"us_p50":2,"us_max":3,"kernels":{"void a::Marlin<1, 2>(int)":{"n":1,"us":2.5}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := ReadMoE("f", raw); err == nil {
			m.Table()
			m.Runs[0].KernelTable()
		}
	})
}

func FuzzReadAllReduce(f *testing.F) {
	f.Add([]byte(`{"kind":"allreduce","tokens":1,"bytes":2,"us_graph":3,"us_eager":4,"env":{"NCCL_PROTO":"LL"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if a, err := ReadAllReduce("f", raw); err == nil {
			a.Table(2)
		}
	})
}

func FuzzReadNcu(f *testing.F) {
	f.Add([]byte(`"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"` + "\n" + `"0","k","Occupancy","Achieved Occupancy","%","1,2.5"` + "\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if k, err := ReadNcu("f", raw); err == nil {
			NcuTable(k)
		}
	})
}
