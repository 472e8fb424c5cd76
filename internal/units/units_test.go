package units

import "testing"

func TestNumbersAreRoundedOnceFromIntegers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Percent(200157657, 440053805, 1), "45.5"},
		{Percent(200157657, 440053805, 0), "45"},
		{Fixed(1, 2, 0), "1"}, {Fixed(-1, 2, 0), "\u22121"}, {Fixed(125, 100, 1), "1.3"},
		{Ms(44_870_000, 2), "44.87"}, {MsPer(153844343, 10, 2), "15.38"},
		{Ms(1, 2), "<0.01"}, {Ms(-1, 2), ">\u22120.01"}, {Ms(0, 2), "0.00"}, {Percent(1, 100000, 0), "<1"},
		{Percent(1, 0, 1), "n/a"}, {Ratio(3, 2, 2), "1.50"}, {Float(9.58565399997724, 2), "9.59"},
		{Count(1234567), "1\u202f234\u202f567"}, {Count(-999), "\u2212999"}, {Count(0), "0"},
		{Bytes(14336), "14.3\u00a0kB"}, {Bytes(999), "999\u00a0B"}, {Bytes(3670016), "3.7\u00a0MB"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
