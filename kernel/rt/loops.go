package rt

// A loop whose rounds are short does not poll in each of them: a call in a loop costs it its registers. It becomes two
// loops. The inner one has no call and ends after some rounds; the outer one polls and goes on where the inner one
// ended. The functions below say how far the inner one goes.

// integer are the types of which some thousands are left.
type integer interface {
	~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr
}

// Span begins for i := range n: it returns n and the first i.
func Span[T integer](n T) (end, from T) { return n, 0 }

// Next is how many rounds of for i := range end come next, most at a time; from < end.
func Next[T integer](from, end, most T) T { return min(end-from, most) }

// Len is the builtin len, which cells may hide.
func Len[S ~[]E, E any](s S) int { return len(s) }

// Part is the part of a slice that begins at from, most elements at a time; from <= len(s).
func Part[S ~[]E, E any](s S, from, most int) S { return s[from : min(len(s)-from, most)+from] }

// Stride is how for ; i < n; i += by goes on, at least one round and most at a time; i < n. The rounds are those of
//
//	for ; i != end; i += step {
//	}
//	i += by - step
//
// The step is another one than by only if by is zero, because then no value of i would end the rounds.
func Stride[T integer](i, n, by, most T) (end, step T) {
	return stride(i, uint64(n)-uint64(i)-1, by, most)
}

// StrideTo is Stride for i <= n.
func StrideTo[T integer](i, n, by, most T) (end, step T) {
	return stride(i, uint64(n)-uint64(i), by, most)
}

// stride: i may move by left before it passes the limit. It wraps around where the loop does.
func stride[T integer](i T, left uint64, by, most T) (end, step T) {
	if by == 0 {
		return i + 1, 1
	}
	if by > 0 {
		rounds := min(left/uint64(by), uint64(most)-1) + 1
		if end = i + T(rounds)*by; end != i { // the rounds do not end where they have begun
			return end, by
		}
	}
	return i + by, by
}
