package assist

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
)

// declarationOf writes an object's declaration in one line.
func declarationOf(o types.Object) string {
	switch o := o.(type) {
	case *types.Var:
		if o.IsField() {
			return "field " + o.Name() + " " + types.TypeString(o.Type(), byName)
		}
		return "var " + o.Name() + " " + types.TypeString(o.Type(), byName)
	case *types.Const:
		t := " " + types.TypeString(o.Type(), byName)
		if b, ok := o.Type().(*types.Basic); ok && b.Info()&types.IsUntyped != 0 {
			t = ""
		}
		return "const " + o.Name() + t + " = " + o.Val().String()
	case *types.Func:
		return funcText(o)
	case *types.TypeName:
		return types.ObjectString(o, byName)
	case *types.Builtin:
		return ""
	}
	return types.ObjectString(o, byName)
}

// funcText writes a function or method without its body.
func funcText(f *types.Func) string {
	recv := ""
	if r := f.Signature().Recv(); r != nil {
		recv = "(" + strings.TrimPrefix(r.Name()+" ", " ") + types.TypeString(r.Type(), byName) + ") "
	}
	return "func " + recv + f.Name() + strings.TrimPrefix(types.TypeString(f.Type(), byName), "func")
}

// methodsOf lists a type's methods that cells can call.
func methodsOf(o *types.TypeName) (out []string) {
	n, ok := types.Unalias(o.Type()).(*types.Named)
	if !ok {
		return nil
	}
	for m := range n.Methods() {
		if visible(m) {
			out = append(out, funcText(m))
		}
	}
	return out
}

// offsetOf finds a line and column in a text.
func offsetOf(text string, line, col int) int {
	off := 0
	for ; line > 1; line-- {
		i := strings.IndexByte(text[off:], '\n')
		if i < 0 {
			return len(text)
		}
		off += i + 1
	}
	return min(off+col-1, len(text))
}

// commentAbove is the text of the comment that ends in the line before off.
func commentAbove(text string, off int) string {
	head := text[:lineStart(text, off)]
	from := len(head)
	for from > 0 {
		prev := lineStart(head, from-1)
		if !strings.HasPrefix(strings.TrimSpace(head[prev:from]), "//") {
			break
		}
		from = prev
	}
	if from == len(head) && strings.HasSuffix(strings.TrimRight(head, " \t\n"), "*/") && !strings.HasSuffix(head, "\n\n") {
		from = max(strings.LastIndex(head, "/*"), 0)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", head[from:]+"package p", parser.ParseComments)
	if err != nil {
		return ""
	}
	return f.Doc.Text()
}

// parsePiece parses a declaration, or gives nil.
func parsePiece(text string) ast.Decl {
	f, _ := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, parser.ParseComments|parser.SkipObjectResolution)
	if f == nil || len(f.Decls) == 0 {
		return nil
	}
	return f.Decls[0]
}

// plain is the description for terminals.
func (d description) plain() string {
	parts := []string{d.decl}
	if len(d.more) > 0 {
		parts = append(parts, strings.Join(d.more, "\n"))
	}
	parts = append(parts, d.where)
	if d.doc != "" {
		var p comment.Printer
		parts = append(parts, strings.TrimSpace(string(p.Text(d.parsed()))))
	}
	if d.source != "" && d.source != d.decl {
		parts = append(parts, d.source)
	}
	return strings.Join(nonEmpty(parts), "\n\n")
}

// markdown is the description for notebooks.
func (d description) markdown() string {
	code := strings.Join(nonEmpty([]string{d.decl, strings.Join(d.more, "\n")}), "\n\n")
	var parts []string
	if code != "" {
		parts = append(parts, fence(code))
	}
	parts = append(parts, d.where)
	if d.doc != "" {
		p := comment.Printer{DocLinkBaseURL: "https://pkg.go.dev", HeadingLevel: 4, HeadingID: func(*comment.Heading) string { return "" }}
		parts = append(parts, strings.TrimSpace(string(p.Markdown(d.parsed()))))
	}
	if d.source != "" && d.source != d.decl {
		parts = append(parts, fence(d.source))
	}
	return strings.Join(parts, "\n\n")
}

func (d description) parsed() *comment.Doc {
	p := d.links
	if p == nil {
		p = &comment.Parser{}
	}
	return p.Parse(d.doc)
}

// fence marks code; the fence is longer than any in it.
func fence(code string) string {
	marks := "```"
	for strings.Contains(code, marks) {
		marks += "`"
	}
	return marks + "go\n" + code + "\n" + marks
}

func nonEmpty(parts []string) (out []string) {
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}
