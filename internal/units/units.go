// Package units turns integers (ns, bytes, FLOP) into text, once and in one place.
// It does not parse, and nothing else in rooflab formats a measured number.
package units

import (
	"math/big"
	"strconv"
	"strings"
)

// Typographic characters used in numbers for people.
const (
	Minus     = "\u2212" // minus sign
	ThinSpace = "\u202f" // between thousands
	HardSpace = "\u00a0" // before a unit
)

// Fixed formats n/d with the given decimals, rounded half away from zero in integer arithmetic.
// A non-zero value that would print as zero is given as "<0.01" (with the same number of decimals).
func Fixed(n, d int64, decimals int) string {
	if d == 0 {
		return "n/a"
	}
	r := new(big.Rat).SetFrac(big.NewInt(n), big.NewInt(d))
	return fixedRat(r, decimals)
}

func fixedRat(r *big.Rat, decimals int) string {
	s := strings.TrimPrefix(r.FloatString(decimals), "-")
	neg := r.Sign() < 0
	if r.Sign() != 0 && strings.Trim(s, "0.") == "" {
		least := "1"
		if decimals > 0 {
			least = "0." + strings.Repeat("0", decimals-1) + "1"
		}
		if neg {
			return ">" + Minus + least
		}
		return "<" + least
	}
	if neg {
		return Minus + s
	}
	return s
}

// Ms formats ns as milliseconds.
func Ms(ns int64, decimals int) string { return Fixed(ns, 1e6, decimals) }

// Us formats ns as microseconds.
func Us(ns int64, decimals int) string { return Fixed(ns, 1e3, decimals) }

// MsPer formats ns/n as milliseconds: a total of n steps as the mean step.
func MsPer(ns, n int64, decimals int) string { return Fixed(ns, n*1e6, decimals) }

// Percent formats part/whole in percent, without the sign.
func Percent(part, whole int64, decimals int) string {
	if whole == 0 {
		return "n/a"
	}
	r := new(big.Rat).SetFrac(big.NewInt(part), big.NewInt(whole))
	return fixedRat(r.Mul(r, big.NewRat(100, 1)), decimals)
}

// Ratio formats a/b, such as a speed-up.
func Ratio(a, b int64, decimals int) string { return Fixed(a, b, decimals) }

// Float formats a number that was recorded as a float (a percentile, a rate).
func Float(v float64, decimals int) string {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(v, 'f', -1, 64))
	if !ok {
		return "n/a"
	}
	return fixedRat(r, decimals)
}

// Count formats an integer with thin spaces between thousands.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = Minus, s[1:]
	}
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteString(ThinSpace)
		}
		b.WriteRune(c)
	}
	return sign + b.String()
}

// Bytes formats a size with a decimal prefix and one decimal: "14.3 kB", "3.7 MB".
func Bytes(n int64) string {
	switch {
	case n >= 1e12:
		return Fixed(n, 1e12, 1) + HardSpace + "TB"
	case n >= 1e9:
		return Fixed(n, 1e9, 1) + HardSpace + "GB"
	case n >= 1e6:
		return Fixed(n, 1e6, 1) + HardSpace + "MB"
	case n >= 1e3:
		return Fixed(n, 1e3, 1) + HardSpace + "kB"
	}
	return strconv.FormatInt(n, 10) + HardSpace + "B"
}
