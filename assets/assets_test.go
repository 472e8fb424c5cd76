package assets

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/dop251/goja"
)

func TestEChartsIsThePinnedOneOrSaysHowToGetIt(t *testing.T) {
	raw, err := ECharts()
	if errors.Is(err, ErrNoECharts) {
		if _, err := os.Stat("dist/echarts.min.js"); err == nil {
			t.Fatal("dist/echarts.min.js is there but not embedded")
		}
		if !strings.Contains(err.Error(), "make assets") {
			t.Errorf("the error does not say what to do: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte("5.6.0")) {
		t.Error("not ECharts 5.6.0")
	}
	for _, name := range []string{"echarts.LICENSE", "echarts.NOTICE"} {
		if _, err := fs.Stat(FS(), name); err != nil {
			t.Errorf("ECharts without its %s: %v", name, err)
		}
	}
}

func TestEveryPackageIsPinnedByHash(t *testing.T) {
	raw, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		t.Fatal(err)
	}
	if v := lock.Packages["node_modules/echarts"].Version; v != "5.6.0" {
		t.Errorf("echarts %q, want 5.6.0", v)
	}
	for name, p := range lock.Packages {
		if name == "" {
			continue
		}
		if !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("%s has no sha512", name)
		}
		if p.Resolved != "" && !strings.HasPrefix(p.Resolved, "https://registry.npmjs.org/") {
			t.Errorf("%s comes from %s", name, p.Resolved)
		}
	}
}

func TestChartsJSMakesFunctionsOnlyOfKnownNames(t *testing.T) {
	vm := goja.New()
	if _, err := vm.RunString("var self = this;" + string(ChartsJS())); err != nil {
		t.Fatal(err)
	}
	v, err := vm.RunString(`(function () {
		var o = rooflabCharts.revive({a: {$fn: "count"}, b: {$fn: "constructor"}, c: {$fn: "alert(1)"}, d: "__f__alert(1)__f__", e: ["function(){}"]});
		return [typeof o.a, typeof o.b, typeof o.c, o.d, o.e[0], o.a(1234567), rooflabCharts.revive({$fn: "bytes"})(100000), rooflabCharts.revive({$fn: "decade"})(42),
			rooflabCharts.revive({$fn: "name"})({name: "<b>\"x\"</b>"})].join("|");
	})()`)
	if err != nil {
		t.Fatal(err)
	}
	want := "function|undefined|undefined|__f__alert(1)__f__|function(){}|1\u202f234\u202f567|100\u00a0kB||&lt;b&gt;&quot;x&quot;&lt;/b&gt;"
	if v.String() != want {
		t.Errorf("got  %s\nwant %s", v, want)
	}
}
