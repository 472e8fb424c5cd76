//go:build gophernotes

package main

import (
	"fmt"
	"strings"

	interp "github.com/cosmos72/gomacro/fast"

	"github.com/rooflab/rooflab/kernel/serve"
)

// Complete knows nothing while a cell runs, nor do Inspect and State: the interpreter cannot be asked then.
func (e *engine) Complete(code string, cursor int) (c serve.Completion) {
	if !e.busy.TryLock() {
		return c
	}
	defer e.busy.Unlock()
	line := strings.LastIndexByte(code[:cursor], '\n') + 1
	head, matches, _ := e.kernel.ir.CompleteWords(code[line:cursor], cursor-line)
	for _, text := range matches {
		c.Matches = append(c.Matches, serve.Match{Text: text})
	}
	c.Start, c.End = line+len(head)-len(interp.TailIdentifier(head)), cursor
	return c
}

func (e *engine) Inspect(code string, cursor, _ int) (b serve.Bundle) {
	if !e.busy.TryLock() {
		return b
	}
	defer e.busy.Unlock()
	if text := e.describe(nameAt(code, cursor)); text != "" {
		b.Data = map[string]any{"text/plain": text}
	}
	return b
}

// describe gives the type of a name such as fmt.Println or run.Steps.
func (e *engine) describe(name string) (text string) {
	if name == "" {
		return ""
	}
	defer func() {
		if recover() != nil { // the interpreter reports an unknown name by a panic
			text = ""
		}
	}()
	if !strings.Contains(name, ".") {
		if t := e.kernel.ir.Comp.TryResolveType(name); t != nil {
			return fmt.Sprintf("type %s %v", name, t.ReflectType())
		}
	}
	expr := e.kernel.ir.Compile(name) // a name has no effect when it is compiled
	if expr == nil || expr.Type == nil {
		return ""
	}
	return name + " " + strings.ReplaceAll(expr.Type.String(), "interface {}", "any")
}

// nameAt returns the name with dots around a place, up to the end of the word there. In a call's parentheses it is
// the function's name, as front ends expect for a tooltip.
func nameAt(code string, cursor int) string {
	if open := strings.LastIndexByte(code[:cursor], '('); open > 0 && !strings.ContainsAny(code[open:cursor], ")\n") {
		if end := cursor; end == len(code) || !isWord(code[end]) {
			cursor = open
		}
	}
	end := cursor
	for end < len(code) && isWord(code[end]) {
		end++
	}
	start := cursor
	for start > 0 && (isWord(code[start-1]) || code[start-1] == '.') {
		start--
	}
	name := strings.Trim(code[start:end], ".")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return ""
	}
	return name
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// State asks gophernotes, which looks at brackets only, and then the parser.
func (e *engine) State(code string) (state, indent string) {
	if !e.busy.TryLock() {
		return "unknown", ""
	}
	defer e.busy.Unlock()
	state, indent = checkComplete(code, e.kernel.ir)
	if trimmed := strings.TrimSpace(code); state != "complete" || strings.HasPrefix(trimmed, "%") || strings.HasPrefix(trimmed, "$") {
		return state, indent
	}
	defer func() {
		if p := recover(); p != nil {
			state = "invalid"
			if text := fmt.Sprint(p); strings.Contains(text, "not terminated") || strings.Contains(text, "'EOF'") {
				state = "incomplete"
			}
		}
	}()
	e.kernel.ir.Comp.Line = 0
	e.kernel.ir.Comp.ParseBytes([]byte(code))
	return state, indent
}
