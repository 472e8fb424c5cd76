package classify

import "strings"

// wrappers run whatever their template argument is; only that argument says what it does.
var wrappers = []string{"cutlass::device_kernel", "cutlass::Kernel", "cutlass::Kernel2", "ck_tile::kentry", "kentry", "device_kernel"}

// function returns the part of a kernel's name that says what it does: without return type, template arguments and parameters.
// For a wrapper the names of its first template argument follow. Names that are no C++ come back whole.
func function(name string) string {
	if strings.HasPrefix(name, "_Z") {
		return mangled(name)
	}
	name = strings.ReplaceAll(name, "(anonymous namespace)::", "")
	head, args := cutTemplate(name)
	if at := strings.LastIndexByte(head, ' '); at >= 0 {
		head = head[at+1:]
	}
	for _, w := range wrappers {
		if head == w {
			return head + " " + namesIn(args, 3)
		}
	}
	return head
}

// cutTemplate removes everything in angle brackets and stops at the parameter list. args is the text from the last bracket on.
// A ">" inside parentheses, as in "enable_if<(((8)>(0)))...>", closes nothing.
func cutTemplate(name string) (head, args string) {
	var b strings.Builder
	var open []byte
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '<':
			if len(open) == 0 {
				args = name[i+1:]
			}
			open = append(open, c)
		case c == '(' && len(open) == 0:
			return strings.TrimSpace(b.String()), args
		case c == '(':
			open = append(open, c)
		case c == '>' && len(open) > 0 && open[len(open)-1] == '<', c == ')' && len(open) > 0 && open[len(open)-1] == '(':
			open = open[:len(open)-1]
		case len(open) == 0:
			b.WriteByte(c)
		}
	}
	return strings.TrimSpace(b.String()), args
}

// namesIn returns the first n names in args that have template arguments of their own, from outside to inside;
// without any, the first argument.
func namesIn(args string, n int) string {
	var names []string
	start := 0
	for i := range len(args) {
		switch args[i] {
		case '<':
			names = append(names, strings.TrimSpace(args[start:i]))
			start = i + 1
			if len(names) == n {
				return strings.Join(names, " ")
			}
		case ',', '(', ')', '>', ' ':
			if len(names) == 0 && args[i] == '>' {
				return strings.TrimSpace(args[start:i])
			}
			start = i + 1
		}
	}
	return strings.Join(names, " ")
}

// mangled returns the identifiers of a mangled name: those of the function, or the first ones of all for a wrapper.
func mangled(name string) string {
	var names []string
	function := 0 // identifiers before the template arguments
	lastE, lastLine := strings.LastIndexByte(name, 'E'), strings.LastIndexByte(name, '_')
	for i := 2; i < len(name) && len(names) < 16; {
		c := name[i]
		if c == 'I' && function == 0 && len(names) > 0 {
			function = len(names)
		}
		switch {
		case c == 'L': // a literal, "Li256E"
			i = after(name, i, 'E', lastE)
			continue
		case (c == 'S' || c == 'T') && i+1 < len(name) && strings.IndexByte("_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", name[i+1]) >= 0: // "S5_"
			i = after(name, i, '_', lastLine)
			continue
		case c < '1' || c > '9':
			i++
			continue
		}
		n := 0
		for ; i < len(name) && name[i] >= '0' && name[i] <= '9' && n < 1000; i++ {
			n = n*10 + int(name[i]-'0')
		}
		if !identifier(name[i:min(i+n, len(name))]) { // a number inside template arguments
			continue
		}
		names = append(names, name[i:min(i+n, len(name))])
		i += n
	}
	if function == 0 {
		function = len(names)
	}
	head := strings.Join(names[:function], "::")
	for _, w := range wrappers {
		if head == w {
			return strings.Join(names, "::")
		}
	}
	return head
}

// after returns the index after the next end, whose last place is last; after i alone when there is none.
func after(name string, i int, end byte, last int) int {
	if i > last {
		return i + 1
	}
	return i + strings.IndexByte(name[i:], end) + 1
}

func identifier(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
