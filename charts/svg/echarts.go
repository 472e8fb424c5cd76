package svg

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dop251/goja"

	"github.com/rooflab/rooflab/assets"
	"github.com/rooflab/rooflab/charts"
)

// drawLimit is how long ECharts may work on one figure.
const drawLimit = 20 * time.Second

// byECharts draws a figure that is an ECharts option.
func byECharts(c *canvas, ch charts.Chart) (float64, error) {
	var spec charts.ECharts
	if err := json.Unmarshal(ch.Spec, &spec); err != nil {
		return 0, fmt.Errorf("read its numbers: %w", err)
	}
	h := spec.Height
	if h <= 0 {
		h = 360
	}
	inner, err := runECharts(ch.Option, int(c.w), min(h, 4000), c.literal)
	if err != nil {
		return 0, err
	}
	c.body.WriteString("<g>" + strings.ReplaceAll(inner, "zr0-", c.id+"-zr-") + "</g>")
	return float64(min(h, 4000)), nil
}

// library is ECharts and our table of functions, compiled once; each figure runs in a fresh VM, because ECharts counts
// its ids through the life of a VM and the bytes would differ from run to run.
var library = sync.OnceValues(func() ([2]*goja.Program, error) {
	var out [2]*goja.Program
	src, err := assets.ECharts()
	if err != nil {
		return out, err
	}
	if out[0], err = goja.Compile("echarts.js", string(src), false); err != nil {
		return out, fmt.Errorf("compile ECharts: %w", err)
	}
	if out[1], err = goja.Compile("charts.js", string(assets.ChartsJS()), false); err != nil {
		return out, fmt.Errorf("compile charts.js: %w", err)
	}
	return out, nil
})

// prelude stands in for the browser. Chance is fixed, so that the same option gives the same bytes.
const prelude = `var self = this, console = {log: function () {}, warn: function () {}, error: function () {}};
function setTimeout() { return 0 } function clearTimeout() {} function setInterval() { return 0 } function clearInterval() {}
Math.random = function () { return 0.5 };`

const drawing = `(function (option, width, height, measure) {
	echarts.setPlatformAPI({measureText: function (t, f) { return {width: measure("" + t, f || "")} }});
	var o = rooflabCharts.revive(JSON.parse(option)), c = echarts.init(null, null, {renderer: "svg", ssr: true, width: width, height: height});
	o.animation = false;
	[].concat(o.series || []).forEach(function (s) { s.animation = false; s.progressive = 0; });
	c.setOption(o);
	return c.renderToSVGString();
})`

// runECharts returns the inside of the SVG that ECharts draws.
func runECharts(option []byte, w, h int, fixed bool) (string, error) {
	programs, err := library()
	if err != nil {
		return "", err
	}
	vm := goja.New()
	timer := time.AfterFunc(drawLimit, func() { vm.Interrupt(fmt.Sprintf("no picture after %s", drawLimit)) })
	defer timer.Stop()
	if _, err := vm.RunString(prelude); err != nil {
		return "", fmt.Errorf("start the JavaScript engine: %w", err)
	}
	for _, p := range programs {
		if _, err := vm.RunProgram(p); err != nil {
			return "", fmt.Errorf("load ECharts: %w", err)
		}
	}
	v, err := vm.RunString(drawing)
	if err != nil {
		return "", fmt.Errorf("start ECharts: %w", err)
	}
	run, _ := goja.AssertFunction(v)
	text := string(option)
	if fixed {
		text = light.Replace(text)
	}
	out, err := run(goja.Undefined(), vm.ToValue(text), vm.ToValue(w), vm.ToValue(h), vm.ToValue(measureCSS))
	if err != nil {
		return "", fmt.Errorf("ECharts: %w", err)
	}
	return innerSVG(out.String())
}

var fontSize = regexp.MustCompile(`([0-9.]+)px`)

// measureCSS measures a text in a CSS font such as "bold 12px sans-serif".
func measureCSS(text, font string) float64 {
	size := 12.0
	if m := fontSize.FindStringSubmatch(font); m != nil {
		_, _ = fmt.Sscan(m[1], &size) // digits by the pattern; else the default stays
	}
	return width(text, size, strings.Contains(font, "bold") || strings.Contains(font, "700"))
}

var styleElement = regexp.MustCompile(`(?s)<style.*?</style>`)

func innerSVG(s string) (string, error) {
	a, b := strings.IndexByte(s, '>'), strings.LastIndex(s, "</svg>")
	if !strings.HasPrefix(s, "<svg") || a < 0 || b < a {
		return "", fmt.Errorf("ECharts gave no SVG: %.60q", s)
	}
	return styleElement.ReplaceAllString(s[a+1:b], ""), nil
}
