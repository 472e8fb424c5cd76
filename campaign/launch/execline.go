package launch

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/internal/secrets"
)

// specifiers are the % marks of a unit that files can settle.
type specifiers struct{ name, instance, home string }

func (s specifiers) expand(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	stem := strings.TrimSuffix(s.name, path.Ext(s.name))
	prefix, _, _ := strings.Cut(stem, "@")
	known := map[byte]string{'i': s.instance, 'I': unescapeName(s.instance), 'n': s.name, 'N': stem, 'p': prefix, 'P': unescapeName(prefix), 'h': s.home,
		'j': prefix[strings.LastIndexByte(prefix, '-')+1:], 'f': "/" + unescapeName(cmp.Or(s.instance, prefix)), 't': "/run", 'S': "/var/lib", 'C': "/var/cache", 'L': "/var/log", 'E': "/etc", 'T': "/tmp", 'V': "/var/tmp", '%': "%"}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		if v, ok := known[text[i]]; ok {
			b.WriteString(v)
		} else {
			b.WriteString("<runtime:%" + text[i:i+1] + ">")
		}
	}
	return b.String()
}

// unescapeName undoes systemd-escape(1): a dash is a slash, \x2d a dash.
func unescapeName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch {
		case name[i] == '-':
			b.WriteByte('/')
		case strings.HasPrefix(name[i:], `\x`):
			text, n := unescape(name[i+1:])
			b.WriteString(text)
			i += n
		default:
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

// execLine turns a command line of a unit into the words of its commands, which a ; of its own separates.
func execLine(line string, sp specifiers, env *environ) ([][]string, error) {
	var out [][]string
	for rest := line; rest != ""; {
		one := rest
		if one, rest = firstCommand(rest); strings.TrimSpace(one) == "" {
			continue
		}
		words, err := execWords(strings.TrimSpace(one), sp, env)
		if err != nil {
			return nil, err
		}
		out = append(out, words)
	}
	return out, nil
}

// firstCommand cuts a line at a ; that is a word and stands in no quotes.
func firstCommand(line string) (first, rest string) {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == ';' && i > 0 && line[i-1] == ' ' && (i+1 == len(line) || line[i+1] == ' '):
			return line[:i], line[i+1:]
		}
	}
	return line, ""
}

// execWords undoes quotes and escapes, then specifiers, then variables.
func execWords(line string, sp specifiers, env *environ) ([]string, error) {
	replace, argv0 := true, false
	for line != "" && strings.IndexByte("@-:+!|", line[0]) >= 0 {
		replace = replace && line[0] != ':'
		argv0 = argv0 || line[0] == '@'
		line = line[1:]
	}
	words, err := unitWords(line)
	if err != nil {
		return nil, err
	}
	for i, w := range words {
		if words[i] = sp.expand(w); w == `\;` {
			words[i] = ";"
		}
	}
	if argv0 && len(words) > 1 { // the second word is what the program sees as its name
		words = append(words[:1:1], words[2:]...)
	}
	if !replace {
		return words, nil
	}
	return unitVariables(words, env), nil
}

// unitVariables replaces $NAME as a word of its own, which is split, and ${NAME} anywhere, which is not.
func unitVariables(words []string, env *environ) []string {
	var out []string
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "$"); ok && isName(name) {
			value, _ := env.lookup(name)
			parts, _ := splitUnit(value, plainEscape) // quotes need no end here
			out = append(out, parts...)
			continue
		}
		out = append(out, braces(w, env))
	}
	return out
}

// plainEscape takes the character after a backslash as it is, as in the value of a variable that is split.
func plainEscape(s string) (string, int) { return s[:1], 1 }

func isName(s string) bool { return s != "" && assignment.MatchString(s+"=") }

// braces replaces ${NAME} anywhere in a word and $$ by a dollar.
func braces(w string, env *environ) string {
	var b strings.Builder
	for i := 0; i < len(w); i++ {
		switch {
		case strings.HasPrefix(w[i:], "$$"):
			b.WriteByte('$')
			i++
		case strings.HasPrefix(w[i:], "${"):
			end := strings.IndexByte(w[i:], '}')
			if end < 0 || !isName(w[i+2:i+end]) {
				b.WriteByte(w[i])
				continue
			}
			value, _ := env.lookup(w[i+2 : i+end])
			b.WriteString(value)
			i += end
		default:
			b.WriteByte(w[i])
		}
	}
	return b.String()
}

// unitWords splits at blanks, removes quotes and undoes backslashes, inside both kinds of quotes as well.
func unitWords(line string) ([]string, error) {
	words, quote := splitUnit(line, unescape)
	if quote != 0 {
		return nil, fmt.Errorf("quote %c is never closed in %q", quote, shorten(secrets.Clean(line)))
	}
	return words, nil
}

// splitUnit returns the words and the quote that is still open at the end, 0 without.
func splitUnit(line string, escape func(string) (string, int)) ([]string, byte) {
	var words []string
	var b strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && i+1 < len(line):
			text, n := escape(line[i+1:])
			b.WriteString(text)
			i += n
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if inWord {
				words = append(words, b.String())
				b.Reset()
				inWord = false
			}
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, quote
}

// unescape returns what the bytes after a backslash stand for and how many they are.
func unescape(s string) (string, int) {
	simple := map[byte]string{'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\\': "\\", '"': `"`, '\'': "'", 's': " "}
	if text, ok := simple[s[0]]; ok {
		return text, 1
	}
	if s[0] == 'x' && len(s) >= 3 {
		if n, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
			return string([]byte{byte(n)}), 3
		}
	}
	if digits := map[byte]int{'u': 4, 'U': 8}[s[0]]; digits > 0 && len(s) > digits {
		if n, err := strconv.ParseUint(s[1:digits+1], 16, 32); err == nil {
			return string(rune(n)), digits + 1
		}
	}
	if len(s) >= 3 {
		if n, err := strconv.ParseUint(s[:3], 8, 8); err == nil {
			return string([]byte{byte(n)}), 3
		}
	}
	return `\` + s[:1], 1
}

// shorten keeps error messages readable and free of whole command lines.
func shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
