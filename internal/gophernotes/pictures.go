//go:build gophernotes

package main

import (
	"fmt"
	r "reflect"

	"github.com/rooflab/rooflab/charts/svg"
)

const chartMIME = "application/vnd.rooflab.chart+json"

// drawCharts gives a chart that a cell returns or displays its picture, so that package charts stays free of the
// machinery that draws.
func drawCharts() {
	render := autoRenderers["SimpleRenderer"]
	autoRenderers["SimpleRenderer"] = func(d Data, v interface{}) Data {
		d = render(d, v)
		d.Data = withPicture(d.Data)
		return d
	}
	display.Binds["MIME"] = r.ValueOf(func(data, metadata MIMEMap) Data { return MIME(withPicture(data), metadata) })
}

// withPicture returns the bundle of a chart with its picture beside the data. When it cannot be drawn, the text
// says why.
func withPicture(bundle MIMEMap) MIMEMap {
	if _, ok := bundle[chartMIME]; !ok {
		return bundle
	}
	drawn := merge(nil, bundle)
	if err := draw(drawn); err != nil {
		drawn[MIMETypeText] = fmt.Sprintf("%v\n(no picture: %v)", bundle[MIMETypeText], err)
	}
	return drawn
}

// draw turns a panic into an error, so that the chart's table is shown in any case.
func draw(bundle MIMEMap) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return svg.Enrich(bundle)
}
