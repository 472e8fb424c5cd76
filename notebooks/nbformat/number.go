package nbformat

import (
	"strconv"
	"strings"
)

// pythonNumber writes a JSON number as Python prints it, so that a kernel's 1e-7 and Jupyter's 1e-07 are the same bytes.
// Whole numbers, and fractions with more digits than a float64 holds, stay as they are.
func pythonNumber(lit string) string {
	if !strings.ContainsAny(lit, ".eE") {
		if lit == "-0" {
			return "0"
		}
		return lit
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(lit), "e")
	if len(strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")) > 17 {
		return lit
	}
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return lit // out of range
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	exp, _ := strconv.Atoi(text[strings.IndexByte(text, 'e')+1:])
	if exp >= -4 && exp < 16 {
		if text = strconv.FormatFloat(f, 'f', -1, 64); !strings.Contains(text, ".") {
			text += ".0"
		}
	}
	return text
}
