package kineto

import (
	"math"
	"strings"
)

// parseNs turns the digits of a time in microseconds into nanoseconds, exactly: "12", "12.5", "1.25e3", "\"4.0\"".
// Digits beyond the third decimal are rounded half to even. No float is involved. ok is false when text is no number or leaves int64.
func parseNs(text string) (ns int64, ok bool) {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	if ns, ok := plainNs(text); ok {
		return ns, true
	}
	negative := strings.HasPrefix(text, "-")
	if negative {
		text = text[1:]
	}
	digits, exponent, ok := splitExponent(text)
	if !ok || digits == "" {
		return 0, false
	}
	point := strings.IndexByte(digits, '.')
	if point < 0 {
		point = len(digits)
	}
	last := point + 3 + exponent // digits before this place of the value are whole ns
	at, seen := 0, 0             // at counts digits without the point
	var round, rest byte
	for i := range len(digits) {
		c := digits[i]
		if i == point {
			continue
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		seen++
		switch {
		case at < last:
			if ns > (math.MaxInt64-9)/10 {
				return 0, false
			}
			ns = ns*10 + int64(c-'0')
		case at == last:
			round = c
		default:
			rest |= c - '0'
		}
		at++
	}
	if seen == 0 {
		return 0, false
	}
	for ; at < last; at++ {
		if ns > math.MaxInt64/10 {
			return 0, false
		}
		ns *= 10
	}
	if round > '5' || round == '5' && (rest != 0 || ns%2 == 1) {
		ns++
	}
	if negative {
		ns = -ns
	}
	return ns, true
}

// plainNs is parseNs for what profilers write: up to 15 digits, then perhaps a point and up to three digits.
func plainNs(text string) (ns int64, ok bool) {
	i := 0
	for ; i < len(text) && text[i]-'0' <= 9; i++ {
		ns = ns*10 + int64(text[i]-'0')
	}
	if i == 0 || i > 15 {
		return 0, false
	}
	if i == len(text) {
		return ns * 1000, true
	}
	if decimals := len(text) - i - 1; text[i] != '.' || decimals > 3 {
		return 0, false
	}
	scale := int64(1000)
	for i++; i < len(text); i++ {
		if text[i]-'0' > 9 {
			return 0, false
		}
		ns, scale = ns*10+int64(text[i]-'0'), scale/10
	}
	return ns * scale, true
}

// splitExponent cuts "1.5e3" into "1.5" and 3.
func splitExponent(text string) (digits string, exponent int, ok bool) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text, 0, true
	}
	digits, text = text[:at], text[at+1:]
	sign := 1
	if text != "" && (text[0] == '+' || text[0] == '-') {
		if text[0] == '-' {
			sign = -1
		}
		text = text[1:]
	}
	if text == "" || len(text) > 3 {
		return "", 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return "", 0, false
		}
		exponent = exponent*10 + int(text[i]-'0')
	}
	return digits, sign * exponent, true
}

// parseID reads a correlation id. Ids above int64 (seen as uint64) wrap; they only have to be equal on both ends.
func parseID(text string) int64 {
	if len(text) >= 2 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	negative := strings.HasPrefix(text, "-")
	if negative {
		text = text[1:]
	}
	if text == "" {
		return 0
	}
	var id uint64
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
		id = id*10 + uint64(text[i]-'0')
	}
	if negative {
		return -int64(id)
	}
	return int64(id)
}
