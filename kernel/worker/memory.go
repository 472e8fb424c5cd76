package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rooflab/rooflab/kernel/proto"
)

// memory bounds what cells may use, so that a runaway cell does not take the machine. A cell that comes near the limit
// is ended like one that is interrupted, and the state is kept; when that does not help, the worker ends itself. There
// is no limit in the system's sense: programs that a cell starts would inherit it.
var memory limiter

// LimitEnv is the environment variable that sets the limit in bytes, or with a suffix K, M or G; 0 means none.
const LimitEnv = "ROOFLAB_MEMORY_LIMIT"

type limiter struct {
	limit atomic.Int64 // bytes; 0: none
	given bool         // by the user: it stays
}

func limitMemory() {
	s := os.Getenv(LimitEnv)
	if s != "" {
		n, err := parseSize(s)
		if err == nil {
			memory.given = true
			memory.set(n)
			return
		}
		fmt.Fprintf(os.Stderr, "%s=%q: %v\n", LimitEnv, s, err)
	}
	memory.set(freeMemory() / 10 * 9)
}

// watch looks after goroutines that have outlived their cells.
func (l *limiter) watch() {
	for range time.Tick(time.Second) {
		if current.Load() == nil && l.limit.Load() > 0 && resident() > l.limit.Load() && !l.grow(resident()) {
			l.die()
		}
	}
}

// grow raises the limit if the machine has more to give.
func (l *limiter) grow(used int64) bool {
	limit := l.limit.Load()
	more := (used + freeMemory()) / 10 * 9
	if l.given || more <= limit+limit/20 {
		return false
	}
	l.set(more)
	return true
}

func (l *limiter) die() {
	writeAll(2, []byte("fatal error: out of memory: the cell wanted more than "+sizeText(l.limit.Load())+"\n"))
	os.Exit(2)
}

// set changes the limit.
func (l *limiter) set(limit int64) {
	l.limit.Store(limit)
	if limit <= 0 {
		return
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 100 * 85) // from here on the collector works harder
	}
}

func parseSize(s string) (int64, error) {
	shift := 0
	switch {
	case strings.HasSuffix(s, "K"):
		shift = 10
	case strings.HasSuffix(s, "M"):
		shift = 20
	case strings.HasSuffix(s, "G"):
		shift = 30
	}
	digits := s
	if shift > 0 {
		digits = s[:len(s)-1]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, errors.New("want a number of bytes, such as 8G")
	}
	return n << shift, nil
}

// freeMemory is what the machine or the container has left, or 0 if that is not known.
func freeMemory() int64 {
	free := int64(0)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if _, rest, ok := bytes.Cut(b, []byte("MemAvailable:")); ok {
			var kb int64
			if _, err := fmt.Sscan(string(rest[:min(len(rest), 40)]), &kb); err == nil {
				free = kb << 10
			}
		}
	}
	for _, c := range [][2]string{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
	} {
		most, err := readNumber(c[0])
		used, err2 := readNumber(c[1])
		if err == nil && err2 == nil && most-used > 0 && (free == 0 || most-used < free) {
			free = most - used
		}
	}
	return free
}

func readNumber(file string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

// attend ends an execution that has come near the limit. Now and then it looks whether the machine has more to give.
func (l *limiter) attend(x *execution, refresh bool) {
	limit, used := l.limit.Load(), goMemory()
	near := used > limit/100*95
	if limit == 0 || (refresh || near) && l.grow(used) || !near {
		return
	}
	x.mu.Lock()
	again := x.stops > 0
	x.mu.Unlock()
	if again {
		if resident() > limit {
			l.die()
		}
		return
	}
	go func() {
		x.end(&proto.RunError{Name: "OutOfMemory", Value: "out of memory: the cell wanted more than " + sizeText(limit)},
			"a goroutine of the cell is still blocked or busy")
		<-x.ended
		debug.FreeOSMemory()
	}()
}

// goMemory is what the Go runtime holds, without what it has given back.
func goMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

func sizeText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// resident is how much of the machine's memory the worker has.
func resident() int64 {
	var size, pages int64
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// measureMemory collects garbage and says what is left.
func measureMemory() *proto.Mem {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	m := &proto.Mem{Heap: int64(s.HeapAlloc), Sys: int64(s.Sys), RSS: resident(), Limit: memory.limit.Load(), Goroutines: runtime.NumGoroutine(), Modules: map[string]int64{}}
	modulesMu.Lock()
	defer modulesMu.Unlock()
	for pkg, mod := range modules {
		m.Modules[pkg] = mod.size
	}
	return m
}
