// Package assets holds the JavaScript of the figures: charts.js, which is ours, and ECharts, which `make assets`
// fetches by hash before the build and which is embedded when it is there.
// It does not fetch anything and does not run JavaScript.
package assets

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed all:dist js/charts.js
var files embed.FS

// ErrNoECharts says that the binary was built without ECharts.
var ErrNoECharts = errors.New("this rooflab was built without ECharts; get it with: make assets && make build")

// echartsSHA256 is the hash of echarts.min.js in the package that package-lock.json pins (5.6.0).
const echartsSHA256 = "bf4a223524e40b77c304bec67e1222cf551f14880cf42c69dc046558e11c07b1"

// ECharts returns echarts.min.js, or ErrNoECharts.
func ECharts() ([]byte, error) {
	raw, err := files.ReadFile("dist/echarts.min.js")
	if err != nil {
		return nil, ErrNoECharts
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != echartsSHA256 {
		return nil, fmt.Errorf("echarts.min.js has sha256 %x, want %s; run: make assets && make build", sum, echartsSHA256)
	}
	return raw, nil
}

// ChartsJS returns charts.js, the interactive view of the figures on a page.
func ChartsJS() []byte {
	raw, err := files.ReadFile("js/charts.js")
	if err != nil { // embedded above: cannot happen
		panic(err)
	}
	return raw
}

// FS returns the fetched files: echarts.min.js with its licence and notice, when the binary was built with them.
func FS() fs.FS {
	sub, err := fs.Sub(files, "dist")
	if err != nil { // a constant, valid path
		panic(err)
	}
	return sub
}
