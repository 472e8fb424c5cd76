package charts

import (
	"encoding/json"
	"fmt"

	"github.com/rooflab/rooflab/data"
)

// ECharts is any other figure, drawn by ECharts itself: the option may come from a go-echarts chart's JSON().
// Prefer the typed figures; they label directly and print well.
type ECharts struct {
	Figure Figure                 `json:"figure"`
	Unit   string                 `json:"unit"`
	Height int                    `json:"height,omitempty"` // pixels; 0 = 360
	Desc   string                 `json:"desc"`             // the values in words
	Table  data.Table             `json:"-"`
	Option map[string]interface{} `json:"-"`
}

// Chart checks the option and makes the figure. Strings in the option stay strings: a function is never made of one.
func (e ECharts) Chart() (Chart, error) {
	if len(e.Option) == 0 || e.Desc == "" || len(e.Table.Columns) == 0 {
		return Chart{}, fmt.Errorf("echarts: an option, a description and the data as a table are needed")
	}
	option, err := still(e.Option)
	if err != nil {
		return Chart{}, fmt.Errorf("echarts: %w", err)
	}
	return e.Figure.chart(body{kind: KindECharts, width: Half, unit: e.Unit, desc: []string{e.Desc}, table: e.Table, option: option, spec: e})
}

// still copies an option through JSON, which refuses NaN, and turns animation off.
func still(option map[string]interface{}) (map[string]any, error) {
	raw, err := json.Marshal(option)
	if err != nil {
		return nil, fmt.Errorf("read option: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("read option: %w", err)
	}
	out["animation"] = false
	return out, nil
}
