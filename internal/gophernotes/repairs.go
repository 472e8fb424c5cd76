//go:build gophernotes

package main

import (
	"fmt"
	r "reflect"
	"strings"
)

// repairProxies lets cell types have methods that show them. gophernotes' own proxy for JSONer returns a string where the interface returns a map, and the interpreter refuses
// the whole package at start. JavaScripter has no proxy: a cell type with that method ends the process.
func repairProxies() {
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

// renderTexts shows a result as fmt prints it, also when its String or Error method is declared in a cell: fmt does
// not see those.
func renderTexts() {
	display.Types["Stringer"] = r.TypeOf((*fmt.Stringer)(nil)).Elem()
	display.Proxies["Stringer"] = r.TypeOf((*proxyStringer)(nil)).Elem()
	display.Types["Error"] = r.TypeOf((*error)(nil)).Elem()
	display.Proxies["Error"] = r.TypeOf((*proxyError)(nil)).Elem()
	autoRenderers["Stringer"] = renderText
	autoRenderers["Error"] = renderText
}

type proxyStringer struct {
	Object  interface{}
	String_ func(o interface{}) string
}

func (p *proxyStringer) String() string { return p.String_(p.Object) }

type proxyError struct {
	Object interface{}
	Error_ func(o interface{}) string
}

func (p *proxyError) Error() string { return p.Error_(p.Object) }

func renderText(d Data, v interface{}) Data {
	d.Data = ensure(d.Data)
	if d.Data[MIMETypeText] == nil {
		if text := fmt.Sprint(v); !strings.Contains(text, "%!v(PANIC=") { // the interpreter cannot call every method
			d.Data[MIMETypeText] = text
		}
	}
	return d
}
