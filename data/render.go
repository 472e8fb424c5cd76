package data

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"github.com/rooflab/rooflab/internal/texttab"
	"github.com/rooflab/rooflab/internal/units"
)

// bundle is what a cell shows for a record: the typed JSON that sitegen reads, a static HTML view and plain text.
func bundle(mime string, record any, htm, text string) map[string]interface{} {
	raw, err := json.Marshal(record)
	var typed any
	if err == nil {
		err = json.Unmarshal(raw, &typed)
	}
	if err != nil { // a NaN in a record: say so where the table would stand
		return map[string]interface{}{"text/plain": fmt.Sprintf("this %T cannot be shown: %v", record, err)}
	}
	return map[string]interface{}{mime: typed, "text/html": htm, "text/plain": text}
}

// SimpleRender shows the table in a notebook.
func (t Table) SimpleRender() map[string]interface{} {
	return bundle(MIMETable, t, t.HTML(), t.Text())
}

// Text returns the table as aligned plain text with its title and note.
func (t Table) Text() string {
	tt := texttab.Table{}
	for _, c := range t.Columns {
		tt.Head = append(tt.Head, c.Head)
		tt.Units = append(tt.Units, c.Unit)
		tt.Numeric = append(tt.Numeric, c.Numeric)
	}
	for i, r := range t.Rows {
		tt.Rows = append(tt.Rows, r.Cells)
		if r.Rule {
			tt.Rules = append(tt.Rules, i)
		}
	}
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(t.Title + "\n\n")
	}
	b.WriteString(tt.String())
	if t.Note != "" {
		b.WriteString("\n" + wrap(t.Note, 100) + "\n")
	}
	return strings.Trim(b.String(), "\n")
}

// HTML returns the table as escaped HTML without script.
func (t Table) HTML() string {
	if len(t.Columns) == 0 { // of what was not measured
		return "<p>" + html.EscapeString(t.Note) + "</p>"
	}
	var b strings.Builder
	b.WriteString("<table>")
	if t.Title != "" {
		b.WriteString("<caption>" + html.EscapeString(t.Title) + "</caption>")
	}
	b.WriteString("<thead><tr>")
	for _, c := range t.Columns {
		head := html.EscapeString(c.Head)
		if c.Unit != "" {
			head += " <small>" + html.EscapeString(c.Unit) + "</small>"
		}
		b.WriteString("<th" + align(c) + ">" + head + "</th>")
	}
	b.WriteString("</tr></thead><tbody>")
	for _, r := range t.Rows {
		b.WriteString("<tr>")
		for i, c := range t.Columns {
			cell := ""
			if i < len(r.Cells) {
				cell = html.EscapeString(r.Cells[i])
			}
			if r.Bold {
				cell = "<b>" + cell + "</b>"
			}
			b.WriteString("<td" + align(c) + ">" + cell + "</td>")
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	if t.Note != "" {
		b.WriteString("<p>" + html.EscapeString(t.Note) + "</p>")
	}
	return b.String()
}

// align sets the side in a style: JupyterLab's own rules for cells win over the attribute.
func align(c Column) string {
	if c.Numeric {
		return ` style="text-align:right"`
	}
	return ` style="text-align:left"`
}

// CSV returns the table with one header row; a unit is added to its head.
func (t Table) CSV() string {
	var b strings.Builder
	for i, c := range t.Columns {
		head := c.Head
		if c.Unit != "" {
			head += " (" + c.Unit + ")"
		}
		csvCell(&b, i, head)
	}
	b.WriteString("\n")
	for _, r := range t.Rows {
		for i := range t.Columns {
			cell := ""
			if i < len(r.Cells) {
				cell = strings.NewReplacer(units.Minus, "-", units.ThinSpace, "", units.HardSpace, " ").Replace(r.Cells[i])
			}
			csvCell(&b, i, cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func csvCell(b *strings.Builder, i int, s string) {
	if i > 0 {
		b.WriteByte(',')
	}
	if strings.ContainsAny(s, ",\"\n") {
		s = `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	b.WriteString(s)
}

// Markdown returns the table in GitHub's form.
func (t Table) Markdown() string {
	esc := strings.NewReplacer("|", `\|`, "\n", " ")
	var b, rule strings.Builder
	if t.Title != "" {
		b.WriteString("**" + esc.Replace(t.Title) + "**\n\n")
	}
	if len(t.Columns) == 0 {
		return b.String() + t.Note + "\n"
	}
	for _, c := range t.Columns {
		head := c.Head
		if c.Unit != "" {
			head += " (" + c.Unit + ")"
		}
		b.WriteString("| " + esc.Replace(head) + " ")
		if c.Numeric {
			rule.WriteString("|---:")
		} else {
			rule.WriteString("|---")
		}
	}
	b.WriteString("|\n" + rule.String() + "|\n")
	for _, r := range t.Rows {
		for i := range t.Columns {
			cell := ""
			if i < len(r.Cells) {
				cell = esc.Replace(r.Cells[i])
			}
			if r.Bold && cell != "" {
				cell = "**" + cell + "**"
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
	if t.Note != "" {
		b.WriteString("\n" + t.Note + "\n")
	}
	return b.String()
}

// wrap breaks text at spaces so that no line is longer than width, where it can.
func wrap(text string, width int) string {
	var lines []string
	for _, para := range strings.Split(text, "\n") {
		line := ""
		for _, word := range strings.Fields(para) {
			if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
				lines = append(lines, line)
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
