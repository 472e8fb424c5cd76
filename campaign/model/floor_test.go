package model

import (
	"testing"

	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace/roofline"
)

func TestFloorsOfADecodeStepUnderTheMeasuredRoof(t *testing.T) {
	r, err := load(t, "kimi-k2.5").Rank(8)
	if err != nil {
		t.Fatal(err)
	}
	roof := roofline.Roof{Bandwidth: roofline.Ceiling{Value: 4_261_421_448_424}, Compute: roofline.Ceiling{Value: 753_057_117_674_801}}
	// C = 256, in ms: figures of the reference page, computed there from weights and peaks. It has 16.67 for the experts
	// because it rounds the bytes of one expert to 3.097 MB; they are 3,096,576.
	for component, want := range map[string]string{
		"moe.experts": "16.66", "attention.proj": "1.07", "moe.shared_expert": "0.22", "moe.router": "0.11", "lm_head": "0.10",
	} {
		if got := units.Ms(r.FloorNs(roof, component, 256, 382.1875), 2); got != want {
			t.Errorf("%s: floor %s ms, want %s", component, got, want)
		}
	}
}
