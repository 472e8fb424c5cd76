package main

import (
	"fmt"
	"math"
)

const big = 5000

type small int16

type meters float64

type count int

func (c *count) add() { *c++ }

// breaks leaves loops of each kind in each way.
func breaks(n int) (out []int) {
	x, y, z := 0, 0, 0
	for i := 0; i < n; i++ {
		if i == 3000 {
			break
		}
		x++
	}
	for i := 0; i <= n; i += 3 {
		if x++; i > 4000 {
			break
		}
	}
	for y < n {
		if y++; y == 2500 {
			break
		}
	}
	for i := range n {
		if z = i; i == 1024 {
			break
		}
	}
	for i, v := range make([]int, n) {
		if x += v; i == 2048 {
			x += i
			break
		}
	}
	for {
		if z++; z > 5555 {
			break
		}
	}
	return append(out, x, y, z)
}

// after tells what is left in variables that outlive their loop.
func after(n int) (out []int) {
	var i int
	for i = 0; i < n; i++ {
	}
	out = append(out, i)
	for ; i <= 2*n; i++ {
	}
	out = append(out, i)
	for ; i < 3*n; i += 7 {
	}
	out = append(out, i)
	for ; i >= 1; i-- {
	}
	out = append(out, i)
	var k, v int
	for k, v = range make([]int, n) {
		v++
	}
	for i = range n {
	}
	return append(out, k, v, i)
}

// labels leave and continue loops around.
func labels(n int) (h int) {
outer:
	for i := 0; i < n; i++ {
	middle:
		for j := range n {
			for k := 0; ; k++ {
				switch h += k; {
				case k > j:
					continue middle
				case k > i:
					continue outer
				case k*j > 900:
					break outer
				case k == 7:
					break middle
				}
			}
		}
	}
alone:
	for i := range 3000 {
		if i%2 == 0 {
			continue alone
		}
		switch {
		case i > 2001:
			break alone
		}
		h += i
	}
	i := 0
again:
	for i < 5000 {
		if i++; i == 4000 {
			i++
			goto again
		}
	}
	return h + i
}

// hidden declares names that a rewriting could want to use.
func hidden(s []int) (h int) {
	len, min, int, cap, true := 3, 4, 5, 6, 7
	for i := range s {
		for i := i; i < 2000; i++ {
			i := i * 2
			h += i
		}
		h += i
	}
	for i := range 3000 {
		i *= 2
		h += i
	}
	return h + len + min + int + cap + true
}

// changed loops have limits, counters and steps that their bodies change.
func changed(n int) (h int) {
	limit := n
	for i := 0; i < limit; i++ {
		if i%3 == 0 {
			limit--
		}
		h += i
	}
	for i := 0; i < n; i++ {
		i += i % 2
		h += i
	}
	step := 1
	for i := 0; i < n; i += step {
		step++
		h += i
	}
	p := &limit
	for i := 0; i < limit; i++ {
		*p = 1500
		h += i
	}
	s := make([]int, n)
	for i := 0; i < len(s); i++ {
		s = s[:len(s)-1]
		h++
	}
	for i := range s {
		s = nil
		h += i
	}
	for i, v := range make([]int, 3000) {
		h += i - v
	}
	numbers := make([]int, 3000)
	for i, v := range numbers {
		if i+1 < len(numbers) {
			numbers[i+1] = v + 1
		}
		h += v
	}
	var c count
	for i := count(0); i < 2000; i++ {
		c += i
	}
	c.add()
	for c < 1e7 {
		c *= 2
	}
	return h + int(c)
}

// edges are loops at the ends of types.
func edges() (out []any) {
	n, h := 0, 0
	for i := math.MaxInt - 3000; i < math.MaxInt; i++ {
		n++
	}
	for i := math.MaxInt - 3000; i <= math.MaxInt; i++ {
		if n++; i < 0 {
			break
		}
	}
	for i := math.MinInt + 2000; i >= math.MinInt; i-- {
		if n++; i > 0 {
			break
		}
	}
	for i := math.MinInt + 2000; i > math.MinInt; i-- {
		n++
	}
	for i := math.MaxInt - 3000; i < math.MaxInt; i += 7 {
		if n++; i < 0 {
			break
		}
	}
	quarter := 1 << 62
	for i := math.MinInt; i <= math.MaxInt; i += quarter {
		if n++; n > 20000 {
			break
		}
	}
	for i := uint32(math.MaxUint32 - 1500); i <= math.MaxUint32; i++ {
		if h++; i == 40 {
			break
		}
	}
	for i := uint(2000); i >= 0; i-- {
		if h++; i > 1<<40 {
			break
		}
	}
	for i := uint8(0); i < 255; i++ {
		h++
	}
	for i := small(-30000); i < 30000; i++ {
		h++
	}
	for i := range uint8(200) {
		h += int(i)
	}
	for i := range small(3000) {
		h += int(i)
	}
	for i := range uint64(3000) {
		h += int(i)
	}
	for i := range -5 {
		h += i
	}
	for i := 10; i < -10; i++ {
		h += i
	}
	zero, down := 0, -2
	for i := 5; i < 10; i += zero {
		if h++; h%3000 == 0 {
			break
		}
	}
	for i := 5; i < 10; i += down {
		if h++; i < -4000 {
			break
		}
	}
	return append(out, n, h)
}

// floats count with fractions.
func floats() (h float64) {
	for x := 0.0; x < 300; x += 0.1 {
		h += x
	}
	for x := meters(1e6); x > 1; x /= 1.001 {
		h += float64(x)
	}
	for x := 1.0; x != math.Inf(1); x *= 1.01 {
		h += math.Sqrt(x) / x
	}
	return h
}

// panics tells how far a loop came before it went wrong.
func panics(loop func(*int)) {
	n := 0
	defer func() { fmt.Println(n, recover()) }()
	loop(&n)
}

// closures see one variable for each round.
func closures() (sum int) {
	var all []func() int
	for i := 0; i < 2000; i++ {
		all = append(all, func() int { i++; return i })
	}
	var addresses []*int
	for i := 0; i < 2000; i++ {
		addresses = append(addresses, &i)
	}
	for i, v := range make([]int, 2000) {
		addresses = append(addresses, &i, &v)
	}
	for i := [2]int{}; i[0] < 1500; i[0]++ {
		part := i[:]
		part[1] += len(part)
		addresses = append(addresses, &part[1])
	}
	for _, f := range all {
		sum += f() + f()
	}
	for i, a := range addresses {
		sum += *a * (i % 5)
	}
	return sum
}

func main() {
	fmt.Println(breaks(big), after(big), labels(40), hidden(make([]int, 30)), changed(3000))
	fmt.Println(edges(), floats(), closures())
	s := make([]int, 2100)
	panics(func(n *int) {
		for i := 0; i < 5000; i++ {
			*n += s[i] + 1
		}
	})
	panics(func(n *int) {
		for i := 3000; ; i-- {
			*n += 6000 / (i - 500)
		}
	})
	panics(func(n *int) {
		for i := 0; s[i] == 0; i++ {
			*n++
		}
	})
	panics(func(n *int) {
		zero := 0
		for i := 0; i < 10/zero; i++ {
			*n++
		}
	})
	panics(func(n *int) {
		for i := range big {
			if *n = i; i == 1500 {
				panic("at 1500")
			}
		}
	})
	total := 0
	for i := range s {
		for j := 0; j < len(s)-i; j += 50 {
			total += i ^ j
		}
	}
	for i, row := range [][]int{s, nil, s[:5], s[:1024], s[:1025]} {
		for range row {
			total += i
		}
	}
	var grid [40][30]int
	for i, row := range grid {
		for j := range row {
			grid[i][j] = i*j + row[j]
			total += grid[i][j]
		}
	}
	fmt.Println(total)
}
