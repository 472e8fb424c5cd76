package main

// repairs is source that mends gophernotes from inside its own package, with nothing of it changed on disk.
const repairs = `
// gophernotes' own proxy for JSONer returns a string where the interface returns a map, and the interpreter
// refuses the whole package at start. JavaScripter has no proxy: a cell type with that method ends the process.
func init() {
	display.Proxies["JSONer"] = r.TypeOf((*proxyJSONer)(nil)).Elem()
	display.Proxies["JavaScripter"] = r.TypeOf((*proxyJavaScripter)(nil)).Elem()
}

type proxyJSONer struct {
	Object interface{}
	JSON_  func(o interface{}) map[string]interface{}
}

func (p *proxyJSONer) JSON() map[string]interface{} { return p.JSON_(p.Object) }

type proxyJavaScripter struct {
	Object      interface{}
	JavaScript_ func(o interface{}) string
}

func (p *proxyJavaScripter) JavaScript() string { return p.JavaScript_(p.Object) }
`

// pictures is source that adds a chart's picture to what a cell displays.
const pictures = `
const chartMIME = "application/vnd.rooflab.chart+json"

func init() {
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
		drawn = merge(nil, bundle)
		drawn[MIMETypeText] = fmt.Sprintf("%v\n(no picture: %v)", bundle[MIMETypeText], err)
	}
	return drawn
}

// draw turns a panic into an error: nothing above recovers it, and it would end the kernel.
func draw(bundle MIMEMap) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return charts_svg.Enrich(bundle)
}
`
